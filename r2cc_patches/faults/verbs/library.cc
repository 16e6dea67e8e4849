#include "faults/verbs/library.h"

#include <dlfcn.h>

#include <atomic>

#include "faults/verbs/loader.h"

namespace r2cc::faults {

namespace {

constexpr char kLibrary[] = "libibverbs.so.1";

std::atomic<void*> library{nullptr};

/// Of our own, so that the program may close its own.
void* opened() { return dlopen(kLibrary, RTLD_NOLOAD | RTLD_LAZY); }

}  // namespace

void setVerbsLibrary(void* handle) {
  if (library != nullptr) return;
  void* const ours = opened();
  library = ours != nullptr ? ours : handle;
}

void* realVerbs(const char* name) {
  if (library == nullptr) library = opened();
  static const auto look = reinterpret_cast<void* (*)(void*, const char*)>(loadersOwn("dlsym"));  // not ours
  void* const handle = library;
  return handle == nullptr ? nullptr : look(handle, name);
}

}  // namespace r2cc::faults
