// The functions that torch.cuda.memory.CUDAPluggableAllocator calls. PyTorch calls them on any thread. None takes the lock of Python.
//
// Signatures: torch/csrc/cuda/CUDAPluggableAllocator.h. A stream is a pointer, cudaStream_t. An id of a pool is a pair of two numbers.

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "gpucache.h"
#include "raise.h"

using Stream = void*;
using PoolId = std::pair<unsigned long long, unsigned long long>;
using Filter = std::function<bool(Stream)>;

// In Rust. It throws nothing, and takes no lock of Python.
extern "C" void gpucache_torch_start_watch();
extern "C" void gpucache_torch_give_context(int device);
extern "C" void gpucache_torch_note_limit(int device);

namespace {

// A bit for each device on which PyTorch has allocated. Devices from 64 on have none: they have no limit at first, and no empty_cache.
std::atomic<uint64_t> used_devices{0};

// A bit for each device that the program has limited since `install` set the limit of all devices. The later limit holds.
std::atomic<uint64_t> limited_devices{0};

// The bit of a device, or 0 if it has none.
uint64_t bit_of(int device) { return device >= 0 && device < 64 ? uint64_t{1} << device : 0; }

std::mutex limit_mutex;

// Never destroyed: threads of PyTorch may still allocate while the process exits.
std::string& limit() {
  static auto* const text = new std::string("none");
  return *text;
}

// How many failed frees are reported. They are errors in a program, and mostly come in large numbers.
constexpr int REPORTS = 8;
std::atomic<int> reports{0};

void begin_device(int device, uint64_t bit) {
  std::string text;
  {
    std::lock_guard<std::mutex> guard(limit_mutex);
    text = limit();
  }
  const bool is_limited = (limited_devices.load(std::memory_order_relaxed) & bit) != 0;
  if (!is_limited && text != "none" && gpucache_set_limit(device, text.c_str()) != GPUCACHE_OK) gpucache::raise_last_error();
  used_devices.fetch_or(bit, std::memory_order_relaxed);
}

bool serves(void* stream, void* filter) {
  try {
    return (*static_cast<Filter*>(filter))(stream);
  } catch (...) {
    // The caller is not in C++. PyTorch's filters compare numbers, and throw nothing.
    return false;
  }
}

void drop_filter(void* filter) { delete static_cast<Filter*>(filter); }

void check(int32_t status) {
  if (status != GPUCACHE_OK) gpucache::raise_last_error();
}

// Whether this thread has allocated. PyTorch allocates on the device that is current in its own books, so its context may be made current.
thread_local bool has_allocated = false;

int32_t allocate(std::size_t bytes, int device, Stream stream, void** address) {
  if (!has_allocated) {
    has_allocated = true;
    gpucache_torch_give_context(device);
  }
  const uint64_t bit = bit_of(device);
  if ((used_devices.load(std::memory_order_relaxed) & bit) != bit) begin_device(device, bit);
  return gpucache_allocate(bytes, device, stream, address);
}

// A share below 1 in percent. The decimal point of floating-point formats depends on the locale, so it is written apart.
std::string format_percent(double fraction) {
  constexpr long long PARTS = 10'000'000;
  const long long parts = std::llround(std::fmax(fraction, 0.0) * 100.0 * static_cast<double>(PARTS));
  char text[64];
  std::snprintf(text, sizeof text, "%lld.%07lld%%", parts / PARTS, parts % PARTS);
  return text;
}

}  // namespace

extern "C" {

void* gpucache_torch_malloc(std::size_t bytes, int device, Stream stream) {
  if (bytes == 0) return nullptr;
  void* address = nullptr;
  const int32_t status = allocate(bytes, device, stream, &address);
  if (status != GPUCACHE_OK) gpucache::raise_failed_allocation(status, bytes);
  return address;
}

// For the segments of a MemPool. If the result is null, PyTorch gives back the segments that it does not use, and asks again.
void* gpucache_torch_pool_malloc(std::size_t bytes, int device, Stream stream) {
  if (bytes == 0) return nullptr;
  void* address = nullptr;
  const int32_t status = allocate(bytes, device, stream, &address);
  if (status == GPUCACHE_OUT_OF_MEMORY) return nullptr;
  check(status);
  return address;
}

// PyTorch calls it in destructors, so it throws nothing.
void gpucache_torch_free(void* address, std::size_t, int, Stream) {
  if (gpucache_free(address) == GPUCACHE_OK) return;
  if (reports.fetch_add(1, std::memory_order_relaxed) < REPORTS) {
    std::fprintf(stderr, "gpucache: a free of PyTorch failed: %s\n", gpucache_last_error());
  }
}

// PyTorch calls it once CUDA is initialised. A program without scopes has no other call of gpucache before its first tensor.
void gpucache_torch_init(int) { gpucache_torch_start_watch(); }

// torch.cuda.empty_cache(). A device that was never used is left alone, since a call would create a context there.
void gpucache_torch_empty_cache() {
  const uint64_t used = used_devices.load(std::memory_order_relaxed);
  for (int device = 0; device < 64; device++) {
    if ((used >> device & 1) != 0) check(gpucache_trim(device, nullptr));
  }
}

void gpucache_torch_fraction(double fraction, int device) {
  const std::string text = fraction < 1.0 ? format_percent(fraction) : "none";
  check(gpucache_set_limit(device, text.c_str()));
  gpucache_torch_note_limit(device);
}

void* gpucache_torch_base_alloc(void* address, std::size_t* bytes) {
  void* base = nullptr;
  std::size_t found = 0;
  check(gpucache_base_address(address, &base, &found));
  if (bytes != nullptr) *bytes = found;
  return base;
}

// The memory may be of another library (from_dlpack, from_blob): that is no error, as with PyTorch's own allocator. A tensor that was made
// from an address inside of an allocation uses that allocation.
void gpucache_torch_record_stream(void* address, Stream stream) {
  if (gpucache_record_stream(address, stream) == GPUCACHE_OK) return;
  void* base = nullptr;
  if (gpucache_base_address(address, &base, nullptr) == GPUCACHE_OK) check(gpucache_record_stream(base, stream));
}

void gpucache_torch_begin_allocate_to_pool(int device, PoolId id, Filter filter) {
  // `drop_filter` deletes it, also if the call fails.
  auto* kept = new Filter(std::move(filter));
  check(gpucache_pool_begin(device, id.first, id.second, serves, kept, drop_filter));
}

void gpucache_torch_end_allocate_to_pool(int device, PoolId id) {
  check(gpucache_pool_end(device, id.first, id.second));
}

// PyTorch calls it in the destructor of a graph, so it throws nothing.
void gpucache_torch_release_pool(int device, PoolId id) {
  if (gpucache_pool_release(device, id.first, id.second) == GPUCACHE_OK) return;
  if (reports.fetch_add(1, std::memory_order_relaxed) < REPORTS) {
    std::fprintf(stderr, "gpucache: the release of a pool of PyTorch failed: %s\n", gpucache_last_error());
  }
}

void gpucache_torch_set_limit(const char* text) {
  std::lock_guard<std::mutex> guard(limit_mutex);
  limit() = text;
  limited_devices.store(0, std::memory_order_relaxed);
}

// The program has limited a device by itself.
void gpucache_torch_note_limit(int device) { limited_devices.fetch_or(bit_of(device), std::memory_order_relaxed); }

uint64_t gpucache_torch_used_devices() { return used_devices.load(std::memory_order_relaxed); }

}  // extern "C"
