// What makes that plugin's net one that R2CC can wrap.
#include "inner/inner_net.h"
#include "inner/r2cc_fence.h"

extern const r2cc::InnerOps r2ccNetSocketOps;

extern "C" __attribute__((visibility("default"))) const r2ccFence_v1_t r2ccFence_v1;
const r2ccFence_v1_t r2ccFence_v1 = {sizeof(r2ccFence_v1_t),        r2ccNetSocketOps.needsAck,
                                     r2ccNetSocketOps.fence,        r2ccNetSocketOps.cancelConnect,
                                     r2ccNetSocketOps.cancelListen, nullptr};
