// Choosing, compiling and launching the code of a kernel step.
// Place: the out-of-line half of cuda_program.h.
#include "compiler/codegen/cuda_program.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "compiler/codegen/disk_cache.h"

namespace weft::compiler {
namespace {

constexpr const char* kOptions[] = {"-std=c++17", "-default-device", "--fmad=false", "-minimal"};
// Sizes whose launches are remembered, beyond which the ones used least recently are worked out again.
constexpr size_t kMaxCases = 32;

std::string architecture_of(const CudaTarget& target) {
  return "sm_" + std::to_string(target.major) + std::to_string(target.minor);
}

CacheKey key_of(const std::string& text, const CudaTarget& target) {
  CacheKey key("cuda kernel");
  key.add("nvrtc", std::to_string(cuda::compiling_driver().toolkit_version()));
  key.add("architecture", architecture_of(target));
  std::string options;
  for (const char* option : kOptions) options += std::string(option) + " ";
  return key.add("options", options).add("source", text);
}

// Modules of this process by text: kernels that differ in nothing are loaded once.
struct LoadedModules {
  std::mutex mutex;
  std::unordered_map<ContentHash, std::weak_ptr<CudaModule>> by_key;
  static LoadedModules& process() {
    static LoadedModules& modules = *new LoadedModules;
    return modules;
  }
};

std::shared_ptr<CudaModule> load(const CudaCode& code, const CudaTarget& target) {
  const cuda::Driver& driver = cuda::driver();
  LoadedModules& loaded = LoadedModules::process();
  const ContentHash hash = key_of(code.text, target).hash();
  {
    const std::lock_guard lock(loaded.mutex);
    if (const auto found = loaded.by_key.find(hash); found != loaded.by_key.end())
      if (auto module = found->second.lock()) return module;
  }
  const std::string& name = code.kernels[0].entry;
  const std::string cubin = compile_cuda(code.text, name, target);
  cuda::Module module = nullptr;
  cuda::check(driver, driver.load_module(&module, cubin.data()), ("loading of " + name).c_str());
  auto made = std::make_shared<CudaModule>(module);
  const std::lock_guard lock(loaded.mutex);
  loaded.by_key[hash] = made;
  return made;
}

}  // namespace

CudaModule::~CudaModule() {
  if (const cuda::Driver* driver = cuda::find_driver()) driver->unload_module(module_);
}

std::string compile_cuda(const std::string& text, const std::string& name, const CudaTarget& target) {
  const cuda::Driver& driver = cuda::compiling_driver();
  DiskCache& cache = DiskCache::process();
  const CacheKey key = key_of(text, target);
  if (std::optional<std::string> found = cache.load(key)) return std::move(*found);
  cuda::CompiledCode code;
  driver.compile(text.c_str(), (name + ".cu").c_str(), architecture_of(target).c_str(), kOptions,
                 static_cast<int>(std::size(kOptions)), &code);
  const std::string log = code.log == nullptr ? driver.last_error() : code.log;
  std::string cubin;
  if (code.cubin != nullptr) cubin.assign(code.cubin, code.cubin_bytes);
  driver.release(code.cubin);
  driver.release(code.log);
  if (cubin.empty()) throw Error("compile: NVRTC refuses the code of " + name + ": " + log.substr(0, 2000));
  cache.store(key, cubin);
  return cubin;
}

// A text with its variants, loaded.
struct CudaProgram::Code {
  std::vector<CudaVariant> variants;
  std::shared_ptr<CudaModule> module;
  std::vector<CudaKernel> kernels;
  std::vector<cuda::Function> functions;
};

// What sizes and alignments of one kind ask for.
struct CudaProgram::Case {
  std::vector<int64_t> sizes;
  std::vector<uint8_t> misaligned;  // by buffer: its address modulo 16
  std::shared_ptr<const Code> code;
  struct Launch {
    size_t kernel;
    cuda::LaunchConfig config;
    std::vector<uint64_t> words;  // those behind counters
  };
  std::vector<Launch> launches;
  CudaMemory memory;
};

struct CudaProgram::StreamMemory {
  int device = 0;
  cuda::Stream stream = nullptr;
  void *scratch = nullptr, *counters = nullptr;
  CudaMemory bytes;
};

CudaTarget CudaProgram::current_target() {
  const cuda::Driver& driver = cuda::driver();
  int device = 0;
  cuda::check(driver, driver.get_device(&device), "cudaGetDevice");
  static std::mutex mutex;
  static std::unordered_map<int, CudaTarget> known;
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(device); found != known.end()) return found->second;
  cuda::DeviceProperties properties;
  cuda::check(driver, driver.device_properties(device, &properties), "cudaGetDeviceProperties");
  return known[device] = {properties.compute_major, properties.compute_minor, properties.num_sms};
}

CudaProgram::CudaProgram(std::span<const LoopBody* const> bodies, CudaTarget target) : target_(target) {
  std::vector<CudaVariant> variants;
  for (const LoopBody* body : bodies) {
    bodies_.push_back(std::make_unique<CudaBody>(*body));
    num_buffers_ += static_cast<uint32_t>(body->buffers.size());
    num_numbers_ += static_cast<uint32_t>(body->numbers.size());
    num_sizes_ += static_cast<uint32_t>(body->size_symbols.size());
    variants.push_back(bodies_.back()->variant(bodies_.back()->traced_sizes(), nullptr, target_));
  }
  code_for(variants);
}

CudaProgram::~CudaProgram() {
  const cuda::Driver* driver = cuda::find_driver();
  if (driver == nullptr) return;
  for (const auto& memory : stream_memory_) {
    if (memory->scratch != nullptr) driver->free(memory->scratch);
    if (memory->counters != nullptr) driver->free(memory->counters);
  }
}

std::shared_ptr<const CudaProgram::Code> CudaProgram::code_for(const std::vector<CudaVariant>& variants) {
  for (const auto& code : codes_)
    if (code->variants == variants) return code;
  std::vector<const LoopBody*> bodies;
  for (const auto& body : bodies_) bodies.push_back(&body->body);
  const CudaCode made = generate_cuda(bodies, variants, target_);
  if (source_ == nullptr) {
    entry_ = made.kernels[0].entry;
    source_ = std::make_shared<const std::string>(made.text);
  }
  auto code = std::make_shared<Code>();
  code->variants = variants;
  code->module = load(made, target_);
  code->kernels = made.kernels;
  const cuda::Driver& driver = cuda::driver();
  for (const CudaKernel& kernel : made.kernels)
    cuda::check(
        driver,
        driver.get_function(&code->functions.emplace_back(), code->module->get(), kernel.entry.c_str()),
        kernel.entry.c_str());
  codes_.push_back(code);
  return code;
}

const CudaProgram::Case& CudaProgram::find_case(void* const* buffers, const int64_t* sizes) {
  const auto misalignment = [&](uint32_t b) {
    return static_cast<uint8_t>(reinterpret_cast<uintptr_t>(buffers[b]) % 16);
  };
  for (size_t i = 0; i < cases_.size(); ++i) {
    const Case& known = *cases_[i];
    if (!std::equal(known.sizes.begin(), known.sizes.end(), sizes)) continue;
    bool is_same = true;
    for (uint32_t b = 0; b < num_buffers_; ++b) is_same &= known.misaligned[b] == misalignment(b);
    if (!is_same) continue;
    if (i > 0)
      std::rotate(cases_.begin(), cases_.begin() + static_cast<ptrdiff_t>(i),
                  cases_.begin() + static_cast<ptrdiff_t>(i) + 1);
    return *cases_[0];
  }

  auto made = std::make_unique<Case>();
  made->sizes.assign(sizes, sizes + num_sizes_);
  for (uint32_t b = 0; b < num_buffers_; ++b) made->misaligned.push_back(misalignment(b));
  std::vector<CudaVariant> variants;
  std::vector<CudaSizes> all;
  void* const* addresses = buffers;
  const int64_t* values = sizes;
  for (const auto& body : bodies_) {
    all.push_back(body->sizes_of(values));
    variants.push_back(body->variant(all.back(), addresses, target_));
    addresses += body->body.buffers.size();
    values += body->body.size_symbols.size();
  }
  made->code = code_for(variants);

  // ---- Scratch memory, which the launches of a call share
  std::vector<std::vector<uint64_t>> offsets;
  for (size_t b = 0; b < bodies_.size(); ++b) {
    offsets.emplace_back();
    for (const CudaScratch& scratch : bodies_[b]->scratch(variants[b])) {
      const auto bytes = static_cast<size_t>(bodies_[b]->scratch_bytes(scratch, variants[b], all[b]));
      size_t& used = scratch.what == CudaScratch::What::Counter ? made->memory.counter_bytes
                                                                : made->memory.scratch_bytes;
      offsets.back().push_back(scratch.what == CudaScratch::What::Counter ? used / 4 : used);
      used += bytes;
    }
  }

  for (size_t k = 0; k < made->code->kernels.size(); ++k) {
    Case::Launch launch{k, {}, {}};
    uint32_t &threads = launch.config.block[0], &shared = launch.config.shared_bytes;
    threads = 0;
    int64_t grid = 0;
    for (size_t b = 0; b < bodies_.size(); ++b) {
      const CudaBody& body = *bodies_[b];
      const std::vector<CudaStage> stages = body.stages(variants[b]);
      CudaGeometry geometry;
      if (k < stages.size()) geometry = body.geometry(stages[k], variants[b], all[b], target_);
      grid += geometry.blocks;
      threads = std::max(threads, static_cast<uint32_t>(geometry.threads));
      shared = std::max(shared, static_cast<uint32_t>(geometry.shared_bytes));
      uint64_t words[kNumWords] = {};
      words[kWordBlocks] = static_cast<uint64_t>(geometry.blocks);
      words[kWordThreads] = static_cast<uint64_t>(geometry.threads);
      words[kWordLanes] = static_cast<uint64_t>(cuda_lanes(all[b].columns));
      words[kWordRowsOfBlock] = static_cast<uint64_t>(cuda_rows_of_block(all[b].rows));
      words[kWordBlocksOfRows] = static_cast<uint64_t>(cuda_blocks_of_rows(all[b].rows));
      words[kWordTileThreads] = static_cast<uint64_t>(CudaBody::tile_threads(variants[b], all[b].columns));
      launch.words.insert(launch.words.end(), std::begin(words), std::end(words));
      launch.words.insert(launch.words.end(), offsets[b].begin(), offsets[b].end());
    }
    WEFT_CHECK(grid <= INT32_MAX, entry_, ": ", grid, " blocks are more than a launch can have");
    launch.config.grid[0] = static_cast<uint32_t>(grid);
    if (shared > 0)
      cuda::check(cuda::driver(), cuda::driver().set_max_shared(made->code->functions[k], shared),
                  made->code->kernels[k].entry.c_str());
    if (grid > 0) made->launches.push_back(std::move(launch));
  }
  if (cases_.size() >= kMaxCases) cases_.pop_back();
  cases_.insert(cases_.begin(), std::move(made));
  return *cases_[0];
}

void CudaProgram::fill(uint64_t* words, const Case& found, size_t launch, void* const* buffers,
                       const uint64_t* numbers, const int64_t* sizes, KernelError* error, void* scratch,
                       void* counters) const {
  std::memcpy(words, buffers, num_buffers_ * sizeof(uint64_t));
  words += num_buffers_;
  if (num_numbers_ > 0) std::memcpy(words, numbers, num_numbers_ * sizeof(uint64_t));
  words += num_numbers_;
  if (num_sizes_ > 0) std::memcpy(words, sizes, num_sizes_ * sizeof(uint64_t));
  words += num_sizes_;
  *words++ = reinterpret_cast<uint64_t>(error);
  *words++ = reinterpret_cast<uint64_t>(scratch);
  *words++ = reinterpret_cast<uint64_t>(counters);
  std::memcpy(words, found.launches[launch].words.data(),
              found.launches[launch].words.size() * sizeof(uint64_t));
}

// Calls on one stream follow one another, so they share memory.
CudaProgram::StreamMemory& CudaProgram::memory_of(cuda::Stream stream, const Case& found) {
  const cuda::Driver& driver = cuda::driver();
  int device = 0;
  cuda::check(driver, driver.get_device(&device), "cudaGetDevice");
  StreamMemory* memory = nullptr;
  for (const auto& known : stream_memory_)
    if (known->device == device && known->stream == stream) memory = known.get();
  if (memory == nullptr) {
    memory = stream_memory_.emplace_back(std::make_unique<StreamMemory>()).get();
    memory->device = device;
    memory->stream = stream;
  }
  const auto grow = [&](void*& at, size_t& bytes, size_t wanted, bool is_zero) {
    if (wanted <= bytes) return;
    if (at != nullptr) driver.free(at);  // waits for the device
    at = nullptr, bytes = 0;
    cuda::check(driver, driver.allocate(&at, wanted), ("scratch memory of " + entry_).c_str());
    bytes = wanted;
    if (is_zero)
      cuda::check(driver, driver.memset(at, 0, wanted, stream), ("scratch memory of " + entry_).c_str());
  };
  grow(memory->scratch, memory->bytes.scratch_bytes, found.memory.scratch_bytes, false);
  grow(memory->counters, memory->bytes.counter_bytes, found.memory.counter_bytes, true);
  return *memory;
}

void CudaProgram::run(void* const* buffers, const uint64_t* numbers, const int64_t* sizes,
                      KernelError* device_error, cuda::Stream stream) {
  const cuda::Driver& driver = cuda::driver();
  const std::lock_guard lock(mutex_);
  const Case& found = find_case(buffers, sizes);
  void *scratch = nullptr, *counters = nullptr;
  if (found.memory.scratch_bytes + found.memory.counter_bytes > 0) {
    const StreamMemory& memory = memory_of(stream, found);
    scratch = memory.scratch;
    counters = memory.counters;
  }
  // What a launch can take as parameters.
  uint64_t words[32764 / 8];
  for (size_t l = 0; l < found.launches.size(); ++l) {
    const Case::Launch& launch = found.launches[l];
    fill(words, found, l, buffers, numbers, sizes, device_error, scratch, counters);
    void* parameters[] = {words};
    cuda::check(driver,
                driver.launch(found.code->functions[launch.kernel], &launch.config, parameters, stream),
                found.code->kernels[launch.kernel].entry.c_str());
  }
}

std::vector<CudaLaunch> CudaProgram::launches(void* const* buffers, const uint64_t* numbers,
                                              const int64_t* sizes, KernelError* device_error, void* scratch,
                                              void* counters) {
  const std::lock_guard lock(mutex_);
  const Case& found = find_case(buffers, sizes);
  std::vector<CudaLaunch> made;
  for (size_t l = 0; l < found.launches.size(); ++l) {
    const Case::Launch& launch = found.launches[l];
    CudaLaunch& own = made.emplace_back();
    own.function = found.code->functions[launch.kernel];
    own.entry = found.code->kernels[launch.kernel].entry;
    own.config = launch.config;
    own.words.resize(num_buffers_ + num_numbers_ + num_sizes_ + 3 + launch.words.size());
    fill(own.words.data(), found, l, buffers, numbers, sizes, device_error, scratch, counters);
  }
  return made;
}

CudaMemory CudaProgram::memory(void* const* buffers, const int64_t* sizes) {
  const std::lock_guard lock(mutex_);
  return find_case(buffers, sizes).memory;
}

}  // namespace weft::compiler
