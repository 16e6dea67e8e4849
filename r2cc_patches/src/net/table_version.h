// The net table that this is compiled with: that of the NCCL in the tree (2.29: v11, 2.30: v12).
#pragma once

#include "nccl_net.h"

#ifdef NET_V12_H_
#define R2CC_NET_PLUGIN ncclNetPlugin_v12
#else
#define R2CC_NET_PLUGIN ncclNetPlugin_v11
#endif

#define R2CC_TEXT_OF(name) #name
#define R2CC_TEXT(name) R2CC_TEXT_OF(name)
