#include "faults/verbs/kernel_calls.h"

#include <rdma/ib_user_ioctl_cmds.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace r2cc::faults {

namespace {

struct Maker {
  uint16_t object, method, attribute;
};

constexpr std::array<Maker, 4> kMakers = {{
    {UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE, UVERBS_ATTR_CREATE_CQ_EVENT_FD},
    {UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE, UVERBS_ATTR_CREATE_QP_EVENT_FD},
    {UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE, UVERBS_ATTR_CREATE_SRQ_EVENT_FD},
    {UVERBS_OBJECT_WQ, UVERBS_METHOD_WQ_CREATE, UVERBS_ATTR_CREATE_WQ_EVENT_FD},
}};

}  // namespace

ib_uverbs_attr* eventFdOf(ib_uverbs_ioctl_hdr& call) {
  const auto its = [&call](const Maker& one) { return one.object == call.object_id && one.method == call.method_id; };
  const auto* const maker = std::find_if(kMakers.begin(), kMakers.end(), its);
  if (maker == kMakers.end()) return nullptr;
  ib_uverbs_attr* const end = call.attrs + call.num_attrs;
  const auto wanted = [maker](const ib_uverbs_attr& one) { return one.attr_id == maker->attribute; };
  ib_uverbs_attr* const found = std::find_if(call.attrs, end, wanted);
  return found == end ? nullptr : found;
}

}  // namespace r2cc::faults
