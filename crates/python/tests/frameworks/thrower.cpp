// Operators of PyTorch that call functions of gpucache, to see what arrives in C++ and in Python.
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <cstdint>
#include <functional>
#include <utility>

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

TORCH_LIBRARY(gpucache_test, library) {
  library.def("allocate", allocate);
  library.def("give_back", give_back);
  library.def("caught", caught);
  library.def("begin", begin);
}
