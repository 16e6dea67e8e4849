// libibverbs' own functions, of the copy that the program uses.
#pragma once

namespace r2cc::faults {

/// The library's own function; null: no libibverbs is loaded, or one that is too old to have it.
void* realVerbs(const char* name);

/// A program has found libibverbs' functions by this handle: the same library is asked from now on.
void setVerbsLibrary(void* handle);

/// The type is that of the function which takes its place.
template <typename Function>
Function* realVerbs(const char* name, Function* /*itsType*/) {
  return reinterpret_cast<Function*>(realVerbs(name));
}

}  // namespace r2cc::faults
