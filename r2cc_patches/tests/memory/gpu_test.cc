// The fake fabric as RDMA with GPU memory: first that it catches what it is there to catch, then what the net does
// today.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "check.h"
#include "rig/rig.h"
#include "rig/socket_pair.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

constexpr int64_t kLimitNs = msToNs(10000);
constexpr size_t kBytes = 1000;
constexpr int kMessages = 8;
constexpr Play kRdma{false, true, true, true};

/// Two comms a rail between two hosts, GPU memory registered on all.
struct Gpu {
  explicit Gpu(uint64_t seed = 1) : fabric(2, kRdma, seed), from(kMessages * kBytes, 7), to(kMessages * kBytes, 0) {
    for (size_t rail = 0; rail < 2; rail++) {
      const int dev = static_cast<int>(rail);
      pairs.push_back(std::make_unique<CommPair>(fabric.inner(), fabric.context(0), dev, fabric.context(1), dev));
      CHECK(pairs.back()->connected());
      CHECK_EQ(net().regMr(pairs[rail]->sender, from.data(), from.size(), NCCL_PTR_CUDA, &mrs[rail][0]), ncclSuccess);
      CHECK_EQ(net().regMr(pairs[rail]->receiver, to.data(), to.size(), NCCL_PTR_CUDA, &mrs[rail][1]), ncclSuccess);
    }
  }
  ~Gpu() {
    for (size_t rail = 0; rail < 2; rail++) {
      fabric.inner().ops->fence(pairs[rail]->sender);
      fabric.inner().ops->fence(pairs[rail]->receiver);
      if (mrs[rail][0] != nullptr) net().deregMr(pairs[rail]->sender, mrs[rail][0]);
      if (mrs[rail][1] != nullptr) net().deregMr(pairs[rail]->receiver, mrs[rail][1]);
    }
    pairs.clear();
    CHECK(fabric.counts().clean());
  }
  const ncclNet_t& net() const { return *fabric.inner().net; }
  uint8_t* slot(int number) { return to.data() + static_cast<size_t>(number) * kBytes; }

  void* recv(int number, size_t rail = 0) {
    void* request = nullptr;
    void* data = slot(number);
    size_t size = kBytes;
    spin(kLimitNs, [&] {
      return net().irecv(pairs[rail]->receiver, 1, &data, &size, &number, &mrs[rail][1], nullptr, &request) !=
                 ncclSuccess ||
             request != nullptr;
    });
    return request;
  }
  void* send(int number, size_t rail = 0) {
    void* request = nullptr;
    spin(kLimitNs, [&] {
      return net().isend(pairs[rail]->sender, from.data(), kBytes, number, mrs[rail][0], nullptr, &request) !=
                 ncclSuccess ||
             request != nullptr;
    });
    return request;
  }
  void* flush(int number, size_t rail = 0) {
    void* request = nullptr;
    void* data = slot(number);
    int size = kBytes;
    CHECK_EQ(net().iflush(pairs[rail]->receiver, 1, &data, &size, &mrs[rail][1], &request), ncclSuccess);
    return request;
  }
  bool ends(void* request) const {
    int done = 0;
    return spin(kLimitNs, [&] { return net().test(request, &done, nullptr) != ncclSuccess || done != 0; }) && done != 0;
  }
  /// One message, all the way, without a flush.
  void pass(int number, size_t rail = 0) {
    void* into = recv(number, rail);
    void* out = send(number, rail);
    CHECK(ends(into) && ends(out));
  }
  bool here(int number) { return slot(number)[0] == 7 && slot(number)[kBytes - 1] == 7; }
  std::string said() const {
    const std::vector<std::string> all = fabric.violations();
    return all.empty() ? "" : all.back();
  }

  Fabric fabric;
  std::vector<uint8_t> from, to;
  std::vector<std::unique_ptr<CommPair>> pairs;
  void* mrs[2][2] = {};
};

uint64_t inodeOf(int fd) {
  struct stat file{};
  return fstat(fd, &file) == 0 ? file.st_ino : 0;
}

}  // namespace

TEST(net_fake_gpu_data_is_visible_after_its_flush) {
  Gpu gpu;
  void* early = gpu.flush(0);  // orders nothing that comes later
  gpu.pass(0);
  CHECK(gpu.ends(early));
  CHECK(!gpu.here(0));
  CHECK_EQ(gpu.said(), "");
  CHECK(!gpu.fabric.reads(gpu.slot(0), 1));
  CHECK_EQ(gpu.said(), "GPU memory is read that no flush has made visible");
  CHECK(gpu.ends(gpu.flush(0)));
  CHECK(gpu.here(0) && gpu.fabric.reads(gpu.slot(0), kBytes));
  CHECK_EQ(gpu.fabric.flushes({1, 0}), 2);
}

TEST(net_fake_gpu_flush_on_another_comm_is_none) {
  Gpu gpu;
  gpu.pass(0, 0);
  gpu.pass(1, 1);
  CHECK(gpu.ends(gpu.flush(0, 1)));
  CHECK(!gpu.here(0) && gpu.here(1));
  CHECK(!gpu.fabric.reads(gpu.to.data(), 2 * kBytes));
  CHECK(gpu.fabric.reads(gpu.slot(1), kBytes) && gpu.fabric.reads(gpu.slot(2), kBytes));
  gpu.fabric.inner().ops->fence(gpu.pairs[0]->receiver);  // the writer dies: its data may land, nobody may rely on it
  CHECK(!gpu.fabric.reads(gpu.slot(0), kBytes));
}

TEST(net_fake_gpu_requests_end_in_any_order) {
  int overtaken = 0;
  for (uint64_t seed = 1; seed <= 10; seed++) {
    Gpu gpu(seed);
    void* recvs[kMessages];
    for (int i = 0; i < kMessages; i++) recvs[i] = gpu.recv(i);
    for (int i = 0; i < kMessages; i++) CHECK(gpu.send(i) != nullptr);
    int done[kMessages] = {};
    CHECK(spin(kLimitNs, [&] {
      for (int i = kMessages - 1; i >= 0; i--) {
        if (!done[i]) CHECK_EQ(gpu.net().test(recvs[i], &done[i], nullptr), ncclSuccess);
        overtaken += done[i] && i > 0 && !done[i - 1];
      }
      return std::all_of(done, done + kMessages, [](int d) { return d != 0; });
    }));
    CHECK_EQ(gpu.said(), "");
  }
  CHECK(overtaken > 10);
}

TEST(net_fake_gpu_drain_shows_what_a_broken_comm_hides) {
  Gpu gpu;
  void* recvs[3] = {gpu.recv(0), gpu.recv(1), gpu.recv(2)};
  void* sends[2] = {gpu.send(0), gpu.send(1)};
  CHECK(gpu.ends(sends[0]) && gpu.ends(sends[1]));  // so both are in the receiver's memory
  gpu.fabric.breakComms({1, 0});
  int done = 0;
  for (void* recv : recvs) CHECK_EQ(gpu.net().test(recv, &done, nullptr), ncclRemoteError);
  CHECK_EQ(done, 0);
  gpu.fabric.inner().ops->drain(gpu.pairs[0]->receiver);
  CHECK_EQ(gpu.net().test(recvs[2], &done, nullptr), ncclRemoteError);
  for (const int good : {1, 0}) {
    CHECK_EQ(gpu.net().test(recvs[good], &done, nullptr), ncclSuccess);
    CHECK_EQ(done, 1);
  }
  CHECK_EQ(gpu.said(), "");
  (void)gpu.recv(3);
  CHECK_EQ(gpu.said(), "a message posted to a dead recv comm of h1/0");
}

TEST(net_fake_gpu_memory_used_after_deregistration) {
  Gpu gpu;
  (void)gpu.recv(0);
  (void)gpu.net().deregMr(gpu.pairs[0]->receiver, gpu.mrs[0][1]);
  gpu.mrs[0][1] = nullptr;
  CHECK_EQ(gpu.said(), "memory deregistered while a request of recv comm of h1/0 uses it");
  void* send = gpu.send(0);
  CHECK(gpu.ends(send));
  CHECK_EQ(gpu.said(), "memory written after deregMr by recv comm of h1/0");
}

TEST(net_fake_gpu_registrations) {
  Gpu gpu;
  CHECK(gpu.fabric.devsWith(1, gpu.to.data()) == std::vector<int>({0, 1}));
  CHECK(gpu.fabric.devsWith(0, gpu.to.data()).empty());
  (void)gpu.net().deregMr(gpu.pairs[0]->receiver, gpu.mrs[0][1]);
  gpu.mrs[0][1] = nullptr;
  CHECK(gpu.fabric.devsWith(1, gpu.to.data()) == std::vector<int>({1}));

  const int fd = memfd_create("dmabuf", MFD_CLOEXEC);
  const uint64_t inode = inodeOf(fd);
  void* comm = gpu.pairs[0]->receiver;
  CHECK_EQ(gpu.net().regMrDmaBuf(comm, gpu.to.data(), 8, NCCL_PTR_CUDA, 0, fd, &gpu.mrs[0][1]), ncclSuccess);
  CHECK(gpu.fabric.dmaBufs().size() == 1 && gpu.fabric.dmaBufs()[0].inode == inode && gpu.said().empty());
  close(fd);
  void* mr = nullptr;
  CHECK_EQ(gpu.net().regMrDmaBuf(comm, gpu.to.data(), 8, NCCL_PTR_CUDA, 0, fd, &mr), ncclSuccess);
  CHECK_EQ(gpu.said(), "regMrDmaBuf with a dead descriptor on recv comm of h1/0");
  (void)gpu.net().deregMr(comm, mr);
}

TEST(net_fake_without_gpu_takes_host_memory_only) {
  Fabric fabric(2, true, 1);
  CHECK(fabric.inner().net->regMrDmaBuf == nullptr && fabric.inner().ops->drain == nullptr);
  CommPair pair(fabric.inner(), fabric.context(0), 0, fabric.context(1), 0);
  uint8_t byte = 0;
  void* mr = nullptr;
  CHECK_EQ(fabric.inner().net->regMr(pair.sender, &byte, 1, NCCL_PTR_CUDA, &mr), ncclInternalError);
  CHECK(mr == nullptr);
}

// ---- the net as it is -------------------------------------------------------------------------------------------

/// NCCL closes the descriptor right after regMrDmaBuf; lanes made by a later failover need it, and not whatever file
/// has got its number meanwhile.
TEST(net_dma_buf_outlives_its_descriptor) {
  RigOptions options;
  options.needsAck = false, options.gpu = true;
  Rig rig(options);
  Stream& stream = rig.stream(0, 1, 0, 60);
  stream.sender->limit = stream.receiver->limit = 20;
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == 20; }));
  std::vector<uint8_t> memory(4096);
  const int fd = memfd_create("dmabuf", MFD_CLOEXEC);
  const uint64_t inode = inodeOf(fd);
  void* mr = nullptr;
  CHECK_EQ(rig.engine(0).regMr(stream.sender->comm(), memory.data(), memory.size(), NCCL_PTR_CUDA, 0, fd, &mr),
           ncclSuccess);
  close(fd);
  const int other = memfd_create("other", MFD_CLOEXEC);
  for (int rail = 0; rail < 2; rail++) {
    rig.fabric.cut({0, rail}, Cut::Hold);
    rig.link(0, rail, false);
    CHECK(Rig::within(kLimitNs, [&] { return rig.fabric.lanes({0, rail}) == 2; }));  // the anchor's two ends
  }
  stream.sender->limit = stream.receiver->limit = UINT64_MAX;
  CHECK(rig.allDone(kLimitNs));
  CHECK_EQ(rig.engine(0).deregMr(stream.sender->comm(), mr), ncclSuccess);
  CHECK(rig.fabric.devsWith(0, memory.data()).empty());
  std::set<int> devs;
  for (const DmaBuf& buf : rig.fabric.dmaBufs()) {
    CHECK(buf.data == memory.data() && buf.inode == inode);
    devs.insert(buf.nic.second);
  }
  CHECK(devs.count(2) == 1 && devs.size() == 3);
  close(other);
  rig.stop();
  CHECK_EQ(rig.problems(), "");
}

/// Completions in any order under a net that tests in order: nothing is lost or mixed up, through a failover.
TEST(net_completions_in_any_order) {
  RigOptions options;
  options.needsAck = false, options.anyOrder = true;
  Rig rig(options);
  for (int i = 0; i < 4; i++) rig.stream(i % 2, 1 - i % 2, i % 3, 150);
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() > 100; }));
  rig.fabric.cut({0, 0}, Cut::Hold);
  rig.link(0, 0, false);
  CHECK(rig.allDone(kLimitNs));
  rig.stop();
  CHECK_EQ(rig.problems(), "");
}
