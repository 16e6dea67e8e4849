/* Functions whose version in glibc is new only because they moved into another of its libraries: `moved F V` has F called
   by its first version V, which every glibc from 2.31 on has. The linker sends calls of F to __wrap_F (release.mk), also
   those of libstdc++, which is linked in. A jump, not a call: dlsym goes by who called it. */

#if defined(__x86_64__)
#define FIRST GLIBC_2.2.5
#define AT_2_12 GLIBC_2.12
#define AT_2_18 GLIBC_2.18
.macro moved name, version
  .symver first_\name, \name@\version
  .globl __wrap_\name
  .hidden __wrap_\name
  .type __wrap_\name, @function
__wrap_\name:
  endbr64
  jmp *first_\name@GOTPCREL(%rip)
  .size __wrap_\name, . - __wrap_\name
.endm
#elif defined(__aarch64__)
#define FIRST GLIBC_2.17
#define AT_2_12 GLIBC_2.17
#define AT_2_18 GLIBC_2.18
.macro moved name, version
  .symver first_\name, \name@\version
  .globl __wrap_\name
  .hidden __wrap_\name
  .type __wrap_\name, %function
__wrap_\name:
  hint 34
  adrp x16, :got:first_\name
  ldr x16, [x16, :got_lo12:first_\name]
  br x16
  .size __wrap_\name, . - __wrap_\name
.endm
#else
#error "no release is made for this CPU"
#endif

  .text
  moved dladdr, FIRST
  moved dlclose, FIRST
  moved dlerror, FIRST
  moved dlopen, FIRST
  moved dlsym, FIRST
  moved dlvsym, FIRST
  moved __pthread_key_create, FIRST
  moved pthread_attr_getstacksize, FIRST
  moved pthread_attr_setstacksize, FIRST
  moved pthread_cond_clockwait, GLIBC_2.30
  moved pthread_condattr_setpshared, FIRST
  moved pthread_create, FIRST
  moved pthread_detach, FIRST
  moved pthread_getspecific, FIRST
  moved pthread_join, FIRST
  moved pthread_key_create, FIRST
  moved pthread_key_delete, FIRST
  moved pthread_mutex_trylock, FIRST
  moved pthread_mutexattr_destroy, FIRST
  moved pthread_mutexattr_init, FIRST
  moved pthread_mutexattr_setpshared, FIRST
  moved pthread_once, FIRST
  moved pthread_rwlock_rdlock, FIRST
  moved pthread_rwlock_unlock, FIRST
  moved pthread_rwlock_wrlock, FIRST
  moved pthread_setattr_default_np, AT_2_18
  moved pthread_setname_np, AT_2_12
  moved pthread_setspecific, FIRST
  moved pthread_sigmask, FIRST

  .section .note.GNU-stack, "", %progbits
