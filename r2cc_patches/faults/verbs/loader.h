// libc's own look-up functions: whoever takes `dlsym` over cannot ask `dlsym` for them.
#pragma once

namespace r2cc::faults {

/// Of the library of this process that has `dlsym`; null: there is none that we can read.
void* loadersOwn(const char* name);

}  // namespace r2cc::faults
