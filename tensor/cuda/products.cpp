// Descriptions of products and the algorithms chosen for them.
// Place: the out-of-line half of tensor/cuda/products.h.
#include "tensor/cuda/products.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tensor/base/error.h"
#include "tensor/cuda/workspace.h"

namespace weft::cuda {

bool& TimedProductsScope::current() {
  thread_local bool is_timed = false;
  return is_timed;
}
namespace {

// Below this cuBLASLt leaves out algorithms that split the summed dimension on Hopper.
constexpr size_t kMostWorkspace = size_t{32} << 20;
// The fastest is among the first eight; on the products of the yardstick it was never the first for small ones.
constexpr int kMostOffers = 8;

struct Key {
  Matmul what;
  int device = 0;
  friend bool operator==(const Key&, const Key&) = default;
};
struct KeyHash {
  size_t operator()(const Key& key) const {
    uint64_t hash = 0;
    const auto mix = [&](auto value) {
      hash = (hash ^ static_cast<uint64_t>(value)) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
    };
    for_each_field(key.what, mix);
    mix(key.device);
    return hash;
  }
  template <class F>
  static void for_each_field(const Matmul& w, const F& f) {
    f(w.type), f(w.out_type), f(w.compute), f(w.epilogue), f(w.transpose_a), f(w.transpose_b), f(w.reads_c);
    f(w.alignment), f(w.m), f(w.n), f(w.k), f(w.lda), f(w.ldb), f(w.ldd), f(w.ld_aux), f(w.batch);
    f(w.stride_a), f(w.stride_b), f(w.stride_d);
  }
};

struct Entry {
  Product product = nullptr;
  std::mutex mutex;  // of what follows, until it is set
  std::vector<ProductAlgorithm> offers;
  ProductAlgorithm fastest;
  std::atomic<bool> has_offers = false, has_fastest = false;
  bool was_looked_up = false;  // in what other processes kept
};

struct Products {
  std::mutex mutex;
  std::unordered_map<Key, std::unique_ptr<Entry>, KeyHash> entries;
  std::atomic<int64_t> calls = 0, heuristics = 0, timed = 0, loaded = 0;
};
// Never destroyed: threads may multiply while the process ends.
Products& products() {
  static Products& all = *new Products;
  return all;
}

constexpr const char* kWhat = "a matrix product";
constexpr const char* kWorkspace = "workspace of a product";

Entry& entry_of(const Key& key) {
  Products& all = products();
  const std::lock_guard lock(all.mutex);
  std::unique_ptr<Entry>& entry = all.entries[key];
  if (entry == nullptr) {
    auto made = std::make_unique<Entry>();
    check(driver(), driver().create_product(&made->product, &key.what), kWhat);
    entry = std::move(made);
  }
  return *entry;
}

// The caller holds the entry.
void ask_heuristic(Entry& entry) {
  if (entry.has_offers) return;
  ProductAlgorithm offers[kMostOffers];
  int count = 0;
  check(driver(), driver().offered_algorithms(entry.product, kMostWorkspace, offers, kMostOffers, &count),
        kWhat);
  ++products().heuristics;
  entry.offers.assign(offers, offers + count);
  entry.has_offers = true;
}

// All that an answer depends on.
std::string text_of(const Key& key) {
  const DeviceProperties& device = properties_of(key.device);
  std::string text = detail::concat(device.name, ' ', device.compute_major, '.', device.compute_minor, ' ',
                                    device.num_sms, " cublasLt ", driver().product_version());
  KeyHash::for_each_field(key.what,
                          [&](auto value) { text += detail::concat(' ', static_cast<int64_t>(value)); });
  return text;
}

std::string bytes_of(const ProductAlgorithm& algorithm) {
  return {reinterpret_cast<const char*>(&algorithm), sizeof(algorithm)};
}

bool load(Entry& entry, const std::string& key) {
  const std::optional<std::string> bytes = product_store.load(key);
  if (!bytes || bytes->size() != sizeof(ProductAlgorithm)) return false;
  std::memcpy(&entry.fastest, bytes->data(), sizeof(ProductAlgorithm));
  bool is_usable = false;
  check(driver(), driver().check_algorithm(entry.product, &entry.fastest, &is_usable), kWhat);
  return is_usable && entry.fastest.workspace_bytes <= kMostWorkspace;
}

class TimingEvents {
 public:
  explicit TimingEvents(size_t count) : events_(count) {
    for (Event& event : events_) check(driver(), driver().create_event(&event, true), kWhat);
  }
  ~TimingEvents() {
    for (const Event event : events_)
      if (event != nullptr) driver().destroy_event(event);
  }
  TimingEvents(const TimingEvents&) = delete;
  TimingEvents& operator=(const TimingEvents&) = delete;
  void record(size_t i, Stream stream) { check(driver(), driver().record_event(events_[i], stream), kWhat); }
  void wait(size_t i) { check(driver(), driver().synchronize_event(events_[i]), kWhat); }
  double microseconds(size_t i) const {
    float milliseconds = 0;
    check(driver(), driver().elapsed(&milliseconds, events_[i], events_[i + 1]), kWhat);
    return 1000.0 * milliseconds;
  }

 private:
  std::vector<Event> events_;
};

size_t size_of_result(const Matmul& what) {
  const size_t element = what.out_type == Matmul::Type::F64 ? 8 : what.out_type == Matmul::Type::F32 ? 4 : 2;
  return element * static_cast<size_t>((what.batch - 1) * what.stride_d + what.n * what.ldd);
}

// What is written is written again by the call itself; a result that is added to goes elsewhere.
void time_offers(Entry& entry, const Key& key, const ProductOperands& given, Stream stream) {
  const Driver& d = driver();
  ProductOperands operands = given;
  std::optional<Workspace> scratch;
  if (key.what.reads_c && (given.c == nullptr || given.c == given.d)) {
    scratch.emplace(key.device, size_of_result(key.what), stream, kWorkspace);
    operands.c = operands.d = scratch->get();
  }
  size_t bytes = 0;
  for (const ProductAlgorithm& offer : entry.offers) bytes = std::max(bytes, offer.workspace_bytes);
  const Workspace workspace(key.device, bytes, stream, kWorkspace);
  const auto run = [&](const ProductAlgorithm& offer) {
    return d.multiply(entry.product, &offer, operands.a, operands.b, operands.c, operands.d, operands.bias,
                      operands.aux, operands.alpha, operands.beta, workspace.get(), stream);
  };
  // The first run of each loads its code; one that is refused is no candidate.
  std::erase_if(entry.offers, [&](const ProductAlgorithm& offer) { return run(offer) != Status::Ok; });
  const size_t count = entry.offers.size();
  if (count == 0) return;
  TimingEvents events(count + 1);
  std::vector<double> best(count, 0);
  // A round runs each of them, as often as makes a tenth of a millisecond: what lies between two events is not only work.
  int repeats = 1, rounds = 1;
  for (int round = 0; round <= rounds; ++round) {
    for (size_t i = 0; i < count; ++i) {
      events.record(i, stream);
      for (int k = 0; k < repeats; ++k) check(d, run(entry.offers[i]), kWhat);
    }
    events.record(count, stream);
    events.wait(count);
    for (size_t i = 0; i < count; ++i) {
      const double each = events.microseconds(i) / repeats;
      best[i] = round <= 1 ? each : std::min(best[i], each);
    }
    if (round > 0) continue;
    const double typical = std::max(1.0, *std::min_element(best.begin(), best.end()));
    repeats = static_cast<int>(std::clamp(100 / typical, 1.0, 20.0));
    rounds = typical > 10000 ? 1 : 4;
  }
  // Between equals the heuristic decides, and not the noise.
  size_t chosen = 0;
  for (size_t i = 1; i < count; ++i)
    if (best[i] < 0.98 * best[chosen]) chosen = i;
  entry.fastest = entry.offers[chosen];
  ++products().timed;
}

// With less to do than this (multiplications), every algorithm costs what a launch costs.
constexpr int64_t kLeastWorkToTime = int64_t{1} << 16;

// Sets `fastest` where it can be known. The caller holds the entry.
void choose_fastest(Entry& entry, const Key& key, const ProductOperands& operands, Stream stream) {
  if (entry.has_offers && entry.offers.empty()) return;
  const Matmul& w = key.what;
  if (w.m * w.n * w.k * w.batch < kLeastWorkToTime) {
    ask_heuristic(entry);
    if (entry.offers.empty()) return;
    entry.fastest = entry.offers[0];
    entry.has_fastest = true;
    return;
  }
  const std::string text = text_of(key);
  if (!std::exchange(entry.was_looked_up, true) && load(entry, text)) {
    ++products().loaded;
    entry.has_fastest = true;
    return;
  }
  ask_heuristic(entry);
  if (entry.offers.empty()) return;
  // Eager calls may be reading the offers: a copy is timed.
  Entry timed;
  timed.product = entry.product;
  timed.offers = entry.offers;
  timed.fastest = entry.offers[0];
  if (entry.offers.size() > 1) {
    bool is_capturing = false;
    check(driver(), driver().is_capturing(stream, &is_capturing), kWhat);
    if (is_capturing) return;
    time_offers(timed, key, operands, stream);
    if (timed.offers.empty()) return;
    product_store.store(text, bytes_of(timed.fastest));
  }
  entry.fastest = timed.fastest;
  entry.has_fastest = true;
}

// Null if there is none.
const ProductAlgorithm* algorithm_for(Entry& entry, const Key& key, const ProductOperands& operands,
                                      Stream stream) {
  const bool is_timed = TimedProductsScope::current();
  if (is_timed && entry.has_fastest) return &entry.fastest;
  if (!is_timed && entry.has_offers) return entry.offers.empty() ? nullptr : entry.offers.data();
  const std::lock_guard lock(entry.mutex);
  if (is_timed && !entry.has_fastest) choose_fastest(entry, key, operands, stream);
  if (is_timed && entry.has_fastest) return &entry.fastest;
  ask_heuristic(entry);
  return entry.offers.empty() ? nullptr : entry.offers.data();
}

}  // namespace

bool multiply(const Matmul& what, const ProductOperands& operands) {
  const Key key{what, current_device()};
  const Stream stream = current_stream(key.device);
  Entry& entry = entry_of(key);
  const ProductAlgorithm* const algorithm = algorithm_for(entry, key, operands, stream);
  if (algorithm == nullptr) return false;
  ++products().calls;
  const Workspace workspace(key.device, algorithm->workspace_bytes, stream, kWorkspace);
  const Driver& d = driver();
  check(d,
        d.multiply(entry.product, algorithm, operands.a, operands.b, operands.c, operands.d, operands.bias,
                   operands.aux, operands.alpha, operands.beta, workspace.get(), stream),
        kWhat);
  return true;
}

ProductStats product_stats() {
  const Products& all = products();
  return {all.calls, all.heuristics, all.timed, all.loaded};
}

void forget_products() {
  Products& all = products();
  const std::lock_guard lock(all.mutex);
  all.entries.clear();
  all.calls = all.heuristics = all.timed = all.loaded = 0;
}

}  // namespace weft::cuda
