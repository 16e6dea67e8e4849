#include "faults/verbs/library.h"

#include <dlfcn.h>

#include <atomic>

namespace r2cc::faults {

namespace {

constexpr char kLibrary[] = "libibverbs.so.1";

std::atomic<void*> library{nullptr};

}  // namespace

void setVerbsLibrary(void* handle) { library = handle; }

void* realVerbs(const char* name) {
  if (library == nullptr) library = dlopen(kLibrary, RTLD_NOLOAD | RTLD_LAZY);
  void* const handle = library;
  return handle == nullptr ? nullptr : dlsym(handle, name);
}

}  // namespace r2cc::faults
