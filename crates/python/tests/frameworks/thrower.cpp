// Operators of PyTorch that call functions of gpucache, to see what arrives in C++ and in Python.
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

using Malloc = void* (*)(size_t, int, void*);
using Free = void (*)(void*, size_t, int, void*);
using Begin = void (*)(int, std::pair<unsigned long long, unsigned long long>, std::function<bool(void*)>);

static int64_t allocate(int64_t function, int64_t bytes, int64_t device) {
  return reinterpret_cast<int64_t>(reinterpret_cast<Malloc>(function)(bytes, static_cast<int>(device), nullptr));
}

static void give_back(int64_t function, int64_t address) {
  reinterpret_cast<Free>(function)(reinterpret_cast<void*>(address), 0, -1, nullptr);
}

// What a `catch` in C++ sees.
static std::string caught(int64_t function, int64_t bytes) {
  try {
    allocate(function, bytes, -1);
    return "nothing";
  } catch (const c10::OutOfMemoryError& error) {
    c10::OutOfMemoryError copy = error;
    copy.add_context("a context");
    return std::string(copy.msg()) + "|" + copy.context().at(0);
  } catch (const std::exception& error) {
    return "another";
  }
}

static void begin(int64_t function, int64_t stream) {
  auto filter = [stream](void* asked) { return reinterpret_cast<int64_t>(asked) == stream; };
  reinterpret_cast<Begin>(function)(-1, {3, 4}, filter);
}

// Threads allocate, write, check and free, their own blocks and those of the others. Returns how many blocks were found changed.
static int64_t soak(int64_t malloc_function, int64_t free_function, int64_t threads, int64_t rounds) {
  struct Slot {
    std::mutex mutex;
    uint64_t* block = nullptr;
    size_t words = 0;
  };
  static std::array<Slot, 256> slots;
  std::atomic<int64_t> changed{0};
  auto give_back = [&](Slot& slot) {
    if (slot.block == nullptr) return;
    const auto mark = reinterpret_cast<uint64_t>(slot.block);
    if (slot.block[0] != mark || slot.block[slot.words - 1] != mark) changed++;
    reinterpret_cast<Free>(free_function)(slot.block, slot.words * 8, -1, nullptr);
    slot.block = nullptr;
  };
  auto work = [&](uint64_t random) {
    for (int64_t round = 0; round < rounds; round++) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      Slot& slot = slots[(random >> 33) % slots.size()];
      std::lock_guard<std::mutex> guard(slot.mutex);
      give_back(slot);
      slot.words = 1 + (random >> 41) % 4096;
      slot.block = static_cast<uint64_t*>(reinterpret_cast<Malloc>(malloc_function)(slot.words * 8, -1, nullptr));
      slot.block[0] = slot.block[slot.words - 1] = reinterpret_cast<uint64_t>(slot.block);
    }
  };
  std::vector<std::thread> running;
  for (int64_t number = 0; number < threads; number++) running.emplace_back(work, number);
  for (auto& thread : running) thread.join();
  for (auto& slot : slots) give_back(slot);
  return changed;
}

TORCH_LIBRARY(gpucache_test, library) {
  library.def("allocate", allocate);
  library.def("give_back", give_back);
  library.def("caught", caught);
  library.def("begin", begin);
  library.def("soak", soak);
}
