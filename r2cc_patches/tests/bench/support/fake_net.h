// A transport inside one process with bad habits, for driving the bench without a network.
//
// Messages are copied when the receiver tests its oldest request. On demand it says "not now" (null requests),
// completes late, needs many calls to connect, fails, changes data, or breaks the interface. It checks its caller as
// strictly as it can: order of tests, number of requests, registered memory, deregistration before close.
#pragma once

#include <cstdint>
#include <string>

#include "nccl_net.h"

namespace r2cc::test {

struct FakeFaults {
  int nullEvery = 0;          // every n-th isend and irecv returns a null request
  int lateTests = 0;          // a request completes only after so many tests
  int connectCalls = 0;       // connect and accept need so many calls
  int failIsendAfter = -1;    // isend fails after so many
  int failTestAfter = -1;     // test fails after so many
  int flipBitOfMessage = -1;  // changes one bit of this message (counted over all connections)
  bool leaveRequestUnset = false;
  bool shortSizes = false;  // test reports one byte less
  bool neverDeliver = false;
};

// Starts afresh: forgets all comms, sets the faults, and returns the table. One table at a time.
const ncclNet_t& fakeNet(const FakeFaults& faults, int nics);

// What the caller did wrong so far, "" if nothing; and what is still open.
std::string fakeComplaint();
int fakeOpenComms();
uint64_t fakeNullRequests();

}  // namespace r2cc::test
