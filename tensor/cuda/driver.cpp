// Finding and loading libweft_cuda.so, and saying why it cannot be used.
// Place: the out-of-line half of tensor/cuda/driver.h.
#include "tensor/cuda/driver.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <vector>

namespace weft::cuda {
namespace {

constexpr const char* kLibrary = "libweft_cuda.so";

struct Loaded {
  const Driver* driver = nullptr;
  std::string reason;  // where there is no driver
};

// Beside this code and above it: the library of a build tree lies above its programs, that of a package beside libweft.
std::vector<std::string> candidates() {
  if (const char* given = std::getenv("WEFT_CUDA_LIBRARY"); given != nullptr && *given != '\0')
    return {given};
  std::vector<std::string> paths;
  const auto add_beside = [&](const std::filesystem::path& file) {
    const std::filesystem::path folder = file.parent_path();
    for (const std::filesystem::path& place :
         {folder, folder.parent_path(), folder.parent_path() / "lib", folder.parent_path().parent_path()}) {
      std::error_code ignored;
      if (std::filesystem::exists(place / kLibrary, ignored)) paths.push_back(place / kLibrary);
    }
  };
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&find_driver), &info) != 0 && info.dli_fname != nullptr) {
    std::error_code ignored;
    add_beside(std::filesystem::absolute(info.dli_fname, ignored));
  }
  std::error_code ignored;
  add_beside(std::filesystem::read_symlink("/proc/self/exe", ignored));
  paths.emplace_back(kLibrary);  // where the system looks
  return paths;
}

Loaded load() {
  std::string failures;
  for (const std::string& path : candidates()) {
    void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      failures += std::string("\n  ") + dlerror();
      continue;
    }
    using Entry = const Driver* (*)();
    const auto entry = reinterpret_cast<Entry>(dlsym(handle, "weft_cuda_driver"));
    const Driver* const driver = entry != nullptr ? entry() : nullptr;
    if (driver != nullptr && driver->version == Driver::kVersion && driver->bytes == sizeof(Driver))
      return {driver, {}};
    failures += "\n  " + path + ": is of another version of Weft";
  }
  return {nullptr, std::string("cuda: the library ") + kLibrary +
                       " could not be loaded; build Weft where the CUDA Toolkit 12.8 or later is found, and "
                       "put the library beside the program or name it by WEFT_CUDA_LIBRARY" +
                       failures};
}

const Loaded& loaded() {
  // Never destroyed: tensors of static life are freed late.
  static const Loaded* const result = new Loaded(load());
  return *result;
}

std::atomic<bool> is_replaced{false};
std::atomic<const Driver*> replacement{nullptr};

}  // namespace

void replace_driver(const Driver* driver) {
  replacement = driver;
  is_replaced = driver != nullptr;
}

const Driver* find_driver() {
  if (is_replaced.load(std::memory_order_relaxed)) [[unlikely]]
    return replacement;
  return loaded().driver;
}

std::string why_unavailable() {
  const Driver* const found = find_driver();
  if (found == nullptr) return loaded().reason;
  const char* const reason = found->why_unavailable();
  return reason != nullptr ? reason : "";
}

const Driver& driver() {
  // Asked for at each allocation and launch: a GPU that was there once stays.
  static std::atomic<const Driver*> usable{nullptr};
  const Driver* const found = find_driver();
  if (found != nullptr && found == usable.load(std::memory_order_acquire)) [[likely]]
    return *found;
  if (const std::string reason = why_unavailable(); !reason.empty()) detail::throw_error(reason);
  usable.store(found, std::memory_order_release);
  return *found;
}

const Driver& compiling_driver() {
  const Driver* const found = find_driver();
  if (found == nullptr) detail::throw_error(loaded().reason);
  return *found;
}

void throw_failure(const Driver& driver, const char* what) {
  detail::throw_error(detail::concat("cuda: ", what, ": ", driver.last_error()));
}

}  // namespace weft::cuda
