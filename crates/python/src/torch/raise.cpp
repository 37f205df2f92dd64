// The exception of PyTorch for out of memory, thrown without PyTorch's headers.
//
// torch.OutOfMemoryError in Python is c10::OutOfMemoryError in C++, whatever its version. The wheel of gpucache is made for all versions, so
// it takes the constructor and the table of virtual functions from the library that the process has open. It needs to know three facts,
// which are the same since torch 2.0:
//
//   - c10::Error(c10::SourceLocation, std::string) makes an error, and c10::OutOfMemoryError adds no field;
//   - SourceLocation is two texts and a line;
//   - a table of virtual functions begins with an offset, the type, and the destructor (the Itanium C++ ABI).
//
// If a symbol is missing, std::runtime_error is thrown. Its text begins as PyTorch's does, which many programs look for.

#include "raise.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <typeinfo>

#include "gpucache.h"

namespace {

// As c10::SourceLocation.
struct SourceLocation {
  const char* function;
  const char* file;
  uint32_t line;
};

using Construct = void (*)(void* self, SourceLocation, std::string);

// An object of the class has 128 bytes in torch 2.11. The rest is for later versions, and stays unused.
constexpr std::size_t ROOM = 1024;

constexpr const char* CONSTRUCTOR = "_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";
constexpr const char* VIRTUAL_FUNCTIONS = "_ZTVN3c1016OutOfMemoryErrorE";

// Both are written once, the second after the first.
std::atomic<Construct> construct{nullptr};
std::atomic<void**> virtual_functions{nullptr};

// A number of bytes as PyTorch writes it.
std::string format_size(std::size_t bytes) {
  static const char* const UNITS[] = {"bytes", "KiB", "MiB", "GiB"};
  if (bytes < 1024) return std::to_string(bytes) + " bytes";
  double size = static_cast<double>(bytes);
  int unit = 0;
  for (; size >= 1024.0 && unit < 3; unit++) size /= 1024.0;
  // The decimal point of floating-point formats depends on the locale, so it is written apart.
  const long long hundredths = std::llround(size * 100.0);
  char text[64];
  std::snprintf(text, sizeof text, "%lld.%02lld %s", hundredths / 100, hundredths % 100, UNITS[unit]);
  return text;
}

// Throws c10::OutOfMemoryError, or returns if its symbols are not known.
void try_raise_out_of_memory(const std::string& text) {
  void** table = virtual_functions.load(std::memory_order_acquire);
  if (table == nullptr) return;
  void* error = abi::__cxa_allocate_exception(ROOM);
  try {
    construct.load(std::memory_order_relaxed)(error, SourceLocation{"malloc", "gpucache", 0}, text);
  } catch (...) {
    // No memory on the host for the text.
    abi::__cxa_free_exception(error);
    throw;
  }
  // The constructor is that of the base class. As the constructors of derived classes do, set the class of the object.
  *static_cast<void**>(error) = table + 2;
  auto* type = static_cast<std::type_info*>(table[1]);
  auto destroy = reinterpret_cast<void (*)(void*)>(table[2]);
  abi::__cxa_throw(error, type, destroy);
}

}  // namespace

namespace gpucache {

void raise_failed_allocation(int32_t status, std::size_t bytes) {
  const std::string report = gpucache_last_error();
  if (status != GPUCACHE_OUT_OF_MEMORY) throw std::runtime_error("gpucache: " + report);
  const std::string text = "CUDA out of memory. Tried to allocate " + format_size(bytes) + ". gpucache: " + report;
  try_raise_out_of_memory(text);
  throw std::runtime_error(text);
}

void raise_last_error() { throw std::runtime_error(std::string("gpucache: ") + gpucache_last_error()); }

}  // namespace gpucache

extern "C" bool gpucache_torch_find_error(const char* path) {
  if (virtual_functions.load(std::memory_order_acquire) != nullptr) return true;
  // Never loads a library: one that PyTorch has not loaded would be another one than its own. The handle stays open, so the library does.
  void* library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return false;
  auto found = reinterpret_cast<Construct>(dlsym(library, CONSTRUCTOR));
  auto table = static_cast<void**>(dlsym(library, VIRTUAL_FUNCTIONS));
  if (found == nullptr || table == nullptr || table[1] == nullptr) return false;
  construct.store(found, std::memory_order_relaxed);
  virtual_functions.store(table, std::memory_order_release);
  return true;
}
