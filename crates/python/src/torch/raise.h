// Exceptions as PyTorch's users expect them. See raise.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpucache {

// Throws what a failed call of gpucache_allocate means: c10::OutOfMemoryError for out of memory, else std::runtime_error.
[[noreturn]] void raise_failed_allocation(int32_t status, std::size_t bytes);

// Throws std::runtime_error with the message of the last call that failed.
[[noreturn]] void raise_last_error();

}  // namespace gpucache
