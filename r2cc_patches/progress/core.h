// What the versions of NCCL's profiler interface have in common. Each entry point of theirs calls one of these.
//
// NCCL gives every event the handle of what it belongs to: an operation of the proxies that of its task, a step that of
// its operation. Contexts and handles may be another process's, which lets our proxies work for it (PXN); the number of
// the process tells.
#pragma once

#include <cstdint>

#include "progress/counting/comms.h"
#include "reporter.h"

namespace r2cc::progress {

class Core {
 public:
  /// The one of this process, made when first asked for and never destroyed.
  static Core& ours();

  /// A communicator begins. Nothing: it is not watched. Where NCCL says who it is only with its first task, identify()
  /// is called then.
  void* begin();
  void identify(void* context, const Identity& identity);
  bool identified(void* context) { return comms_.identified(Handle::of(context)); }
  void end(void* context);

  void* task(void* context, uint64_t bytes);
  void* op(void* context, int process, void* task, bool sends);
  void* step(void* op);
  void stop(void* handle);
  /// A step has given its data to the network, or got it.
  void moved(void* step, uint64_t bytes);
  /// An operation's connection has moved so much, from whenever on.
  void counted(void* op, uint64_t bytes);

 private:
  Core();
  Comms comms_;
  Reporter reporter_;
  int process_;
};

}  // namespace r2cc::progress
