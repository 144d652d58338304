// A table of records for each device, and reading it.
// Place: the out-of-line half of compiler/runtime/device_errors.h.
#include "compiler/runtime/device_errors.h"

#include <array>
#include <mutex>
#include <vector>

#include "tensor/cuda/allocator.h"

namespace weft::compiler {
namespace {

constexpr size_t kMostErrorDevices = 64;
constexpr size_t kRecords = 256;  // read as one: 8 KB

// Records are never moved, as kernels have their addresses: another block of them is added when all are taken.
struct Table {
  using Fail = std::shared_ptr<const std::function<void(const KernelError&)>>;
  std::mutex mutex;
  std::vector<KernelError*> blocks;
  std::vector<Fail> fails;        // by slot; null: free
  std::vector<uint8_t> is_dirty;  // by block: a kernel was launched that may have set a record of it
};

Table& table_of(int device) {
  static auto& tables = *new std::array<Table, kMostErrorDevices>;
  return tables[static_cast<size_t>(device)];
}

// Everything that ran on the device before has been waited for.
void look_at(int device) {
  Table& table = table_of(device);
  Table::Fail fail;
  KernelError error;
  {
    const std::lock_guard lock(table.mutex);
    for (size_t b = 0; b < table.blocks.size() && fail == nullptr; ++b) {
      if (table.is_dirty[b] == 0) continue;
      const cuda::Driver& driver = cuda::driver();
      const cuda::Stream stream = cuda::current_stream(device);
      std::array<KernelError, kRecords> records;
      cuda::check(
          driver,
          driver.copy(records.data(), table.blocks[b], sizeof(records), cuda::CopyKind::DeviceToHost, stream),
          "reading error records");
      cuda::check(driver, driver.synchronize_stream(stream), "reading error records");
      for (size_t i = 0; i < kRecords && fail == nullptr; ++i) {
        if (records[i].check == 0) continue;
        error = records[i];
        fail = table.fails[b * kRecords + i];
        cuda::check(driver, driver.memset(table.blocks[b] + i, 0, sizeof(KernelError), stream),
                    "clearing an error record");
      }
      // Another record may be set too: it is told at the next wait.
      if (fail == nullptr) table.is_dirty[b] = 0;
    }
  }
  if (fail != nullptr) (*fail)(error);
}

}  // namespace

DeviceError::DeviceError(int device, std::function<void(const KernelError&)> fail) : device_(device) {
  Table& table = table_of(device);
  cuda::set_synchronize_check(look_at);
  const std::lock_guard lock(table.mutex);
  size_t slot = 0;
  while (slot < table.fails.size() && table.fails[slot] != nullptr) ++slot;
  if (slot == table.fails.size()) {
    const cuda::DeviceGuard guard(device);
    const cuda::Driver& driver = cuda::driver();
    void* const memory =
        cuda::allocator_of(device).allocate(kRecords * sizeof(KernelError), nullptr, "error records");
    cuda::check(driver, driver.memset(memory, 0, kRecords * sizeof(KernelError), nullptr),
                "clearing error records");
    cuda::check(driver, driver.synchronize_stream(nullptr), "clearing error records");
    table.blocks.push_back(static_cast<KernelError*>(memory));
    table.is_dirty.push_back(0);
    table.fails.resize(table.fails.size() + kRecords);
  }
  table.fails[slot] = std::make_shared<const std::function<void(const KernelError&)>>(std::move(fail));
  slot_ = slot;
}

DeviceError::~DeviceError() {
  Table& table = table_of(device_);
  const std::lock_guard lock(table.mutex);
  table.fails[slot_] = nullptr;
}

KernelError* DeviceError::for_launch() const {
  Table& table = table_of(device_);
  const std::lock_guard lock(table.mutex);
  table.is_dirty[slot_ / kRecords] = 1;
  return table.blocks[slot_ / kRecords] + slot_ % kRecords;
}

}  // namespace weft::compiler
