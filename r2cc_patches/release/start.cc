// The start of a program. Its version in glibc is new since 2.34, because an older one leaves it to the program to run
// its constructors: so this hands them over. A newer glibc that is asked in the old way does not run them by itself.

#if defined(__x86_64__)
__asm__(".symver first_start, __libc_start_main@GLIBC_2.2.5");
#else
__asm__(".symver first_start, __libc_start_main@GLIBC_2.17");
#endif

using Constructor = void (*)(int, char**, char**);

extern "C" {
extern Constructor __init_array_start[] __attribute__((visibility("hidden")));
extern Constructor __init_array_end[] __attribute__((visibility("hidden")));
using Main = int (*)(int, char**, char**);
int first_start(Main, int, char**, Constructor, void (*)(), void (*)(), void*);

__attribute__((visibility("hidden"))) int __wrap___libc_start_main(Main main, int argc, char** argv, Constructor,
                                                                   void (*)(), void (*at_exit)(), void* stack_end) {
  const Constructor construct = [](int count, char** words, char** env) {
    for (Constructor* each = __init_array_start; each != __init_array_end; ++each) (*each)(count, words, env);
  };
  return first_start(main, argc, argv, construct, nullptr, at_exit, stack_end);
}
}
