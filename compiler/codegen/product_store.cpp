// The algorithms chosen for matrix products, in the disk cache.
// Place: defines product_store of tensor/cuda/products.h.
#include "compiler/codegen/disk_cache.h"
#include "tensor/cuda/products.h"

namespace weft {
namespace {

compiler::CacheKey key_of(const std::string& product) {
  return compiler::CacheKey("cublasLt algorithm").add("product", product);
}

}  // namespace

constinit const cuda::ProductStore cuda::product_store = {
    [](const std::string& product) { return compiler::DiskCache::process().load(key_of(product)); },
    [](const std::string& product, const std::string& bytes) {
      compiler::DiskCache::process().store(key_of(product), bytes);
    }};

}  // namespace weft
