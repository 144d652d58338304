// Storage: where its memory comes from and goes to.
// Place: the out-of-line half of tensor/storage.h.
#include "tensor/storage.h"

#include "tensor/allocator.h"
#include "tensor/cuda/allocator.h"

namespace weft {

Intrusive<Storage> Storage::allocate(size_t bytes, Device device) {
  if (device.is_cuda()) {
    void* const memory =
        cuda::allocator_of(device.index)
            .allocate(bytes, cuda::current_stream(device.index), cuda::AllocationScope::current());
    return Intrusive<Storage>::adopt(new Storage(memory, bytes, device));
  }
  return Intrusive<Storage>::adopt(new Storage(weft::allocate(bytes), bytes, device));
}

Intrusive<Storage> Storage::wrap(void* data, size_t bytes, Device device,
                                 std::function<void(void*)> deleter) {
  auto storage = Intrusive<Storage>::adopt(new Storage(data, bytes, device));
  storage->deleter_ = std::make_unique<std::function<void(void*)>>(std::move(deleter));
  return storage;
}

void Storage::destroy(Storage* storage) noexcept {
  if (storage->deleter_ == nullptr && storage->device_.is_cuda()) {
    cuda::allocator_of(storage->device_.index).deallocate(storage->data_);
  } else if (storage->deleter_ == nullptr) {
    weft::deallocate(storage->data_, storage->bytes_);
  } else if (*storage->deleter_) {
    (*storage->deleter_)(storage->data_);
  }
  delete storage;
}

void* Storage::operator new(size_t bytes) { return weft::allocate(bytes); }
void Storage::operator delete(void* memory, size_t bytes) { weft::deallocate(memory, bytes); }

}  // namespace weft
