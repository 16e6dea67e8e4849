#include "r2cc_net.h"

#include <cstring>

#include "inner_net.h"

extern ncclNet_t ncclNetIb;
extern ncclNet_t ncclNetSocket;
extern const r2cc::InnerOps r2ccNetSocketOps;

namespace r2cc {
const InnerOps* innerOps(const ncclNet_t* net) { return net == &ncclNetSocket ? &r2ccNetSocketOps : nullptr; }
}  // namespace r2cc

ncclNet_t* r2ccWrapNet(ncclNet_t* inner) { return inner; }

extern "C" const void* r2ccNetGet(const char* inner) {
  if (strcmp(inner, "Socket") == 0) return r2ccWrapNet(&ncclNetSocket);
  if (strcmp(inner, "IB") == 0) return r2ccWrapNet(&ncclNetIb);
  return nullptr;
}
