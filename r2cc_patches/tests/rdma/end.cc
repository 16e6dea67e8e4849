#include "end.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "base/clock.h"

namespace r2cc::ib {
namespace {

constexpr uint8_t kUntouched = 0xEE;
constexpr useconds_t kNapUs = 200;

uint8_t patternAt(size_t message, size_t i) { return static_cast<uint8_t>((message * 37 + i * 11 + i / 251) % 200); }

std::string toHex(const uint8_t* data, size_t size) {
  static const char* digits = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < size; i++) out += {digits[data[i] >> 4], digits[data[i] & 15]};
  return out;
}

void fromHex(const std::string& text, uint8_t* out, size_t size) {
  if (text.size() != 2 * size) throw std::runtime_error("not a handle");
  for (size_t i = 0; i < size; i++) out[i] = static_cast<uint8_t>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
}

template <class Work>
int64_t microseconds(const Work& work) {
  const int64_t start = nowNs();
  work();
  return (nowNs() - start) / 1000;
}

}  // namespace

End::End(const InnerNet& net, void* ctx) : net_(net), ctx_(ctx) {}

End::~End() {  // NOLINT(bugprone-exception-escape): a test that cannot deregister ends at once
  if (comm_ != nullptr) (void)close();
  cancel();
}

std::string End::listen(int dev) {
  if (net_.net->listen(ctx_, dev, handle_, &listenComm_) != ncclSuccess) throw std::runtime_error("listen failed");
  return toHex(handle_, kHandleBytes);
}

std::string End::connect(int dev, const std::string& handle, int ms) {
  if (!connecting_) fromHex(handle, handle_, kHandleBytes);
  sends_ = connecting_ = true;
  const int64_t limit = nowNs() + msToNs(ms);
  do {
    if (net_.net->connect(ctx_, dev, handle_, &comm_, nullptr) != ncclSuccess) return "error";
    if (comm_ != nullptr) return "up";
    usleep(kNapUs);
  } while (nowNs() < limit);
  return "pending";
}

std::string End::accept(int ms) {
  const int64_t limit = nowNs() + msToNs(ms);
  do {
    if (net_.net->accept(listenComm_, &comm_, nullptr) != ncclSuccess) return "error";
    if (comm_ != nullptr) return "up";
    usleep(kNapUs);
  } while (nowNs() < limit);
  return "pending";
}

void End::allocate(size_t count, size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  count_ = count, bytes_ = bytes, stride_ = (bytes + page - 1) / page * page;
  memory_.reset(new uint8_t[count * stride_]);
  memset(memory_.get(), kUntouched, count * stride_);
  for (size_t m = 0; sends_ && m < count; m++) {
    for (size_t i = 0; i < bytes; i++) buffer(m)[i] = patternAt(m, i);
  }
  messages_.clear();
  if (net_.net->regMr(comm_, memory_.get(), count * stride_, NCCL_PTR_HOST, &mr_) != ncclSuccess) {
    throw std::runtime_error("regMr failed");
  }
}

size_t End::post(size_t count, int ms) {
  const int64_t limit = nowNs() + msToNs(ms);
  size_t posted = 0;
  while (posted < count && messages_.size() < count_) {
    Message message;
    void* data = buffer(messages_.size());
    size_t size = bytes_;
    int tag = 7;
    void* profiler = nullptr;
    const ncclResult_t result = sends_
                                    ? net_.net->isend(comm_, data, size, tag, mr_, nullptr, &message.request)
                                    : net_.net->irecv(comm_, 1, &data, &size, &tag, &mr_, &profiler, &message.request);
    if (result != ncclSuccess) return posted;
    if (message.request != nullptr) {
      messages_.push_back(message);
      posted++;
    } else if (nowNs() > limit) {
      return posted;
    } else {
      usleep(kNapUs);
    }
  }
  return posted;
}

bool End::testOne(Message& message) {
  int done = 0;
  if (net_.net->test(message.request, &done, &message.size) != ncclSuccess) return false;
  if (done) message.fate = Fate::Done;
  return true;
}

bool End::test(int ms) {
  const int64_t limit = nowNs() + msToNs(ms);
  const auto waits = [](const Message& m) { return m.fate == Fate::Waiting; };
  do {
    for (auto m = messages_.rbegin(); m != messages_.rend(); ++m) {
      if (waits(*m) && !testOne(*m)) return false;
    }
    if (std::none_of(messages_.begin(), messages_.end(), waits)) return true;
    usleep(kNapUs);
  } while (nowNs() < limit);
  return true;
}

void End::settle() {
  for (Message& message : messages_) {
    if (message.fate != Fate::Waiting) continue;
    if (!testOne(message) || message.fate != Fate::Done) message.fate = Fate::Failed;
  }
}

int64_t End::drain() {
  return microseconds([this] { net_.ops->drain(comm_); });
}

int64_t End::fence() {
  return microseconds([this] { net_.ops->fence(comm_); });
}

void End::deregister() {
  if (mr_ != nullptr && net_.net->deregMr(comm_, mr_) != ncclSuccess) throw std::runtime_error("deregMr failed");
  mr_ = nullptr;
}

int64_t End::close() {
  if (comm_ == nullptr) return 0;
  deregister();
  const int64_t took = microseconds([this] {
    const ncclResult_t result = sends_ ? net_.net->closeSend(comm_) : net_.net->closeRecv(comm_);
    if (result != ncclSuccess) throw std::runtime_error("close failed");
  });
  comm_ = nullptr;
  connecting_ = false;
  cancel();
  messages_.clear();
  return took;
}

void End::cancel() {
  if (connecting_ && comm_ == nullptr) net_.ops->cancelConnect(handle_);
  if (listenComm_ != nullptr) net_.ops->cancelListen(listenComm_);
  connecting_ = false;
  listenComm_ = nullptr;
}

std::string End::contents() const {
  std::string out;
  for (size_t m = 0; m < count_; m++) {
    size_t same = 0, untouched = 0;
    for (size_t i = 0; i < bytes_; i++) {
      same += buffer(m)[i] == patternAt(m, i);
      untouched += buffer(m)[i] == kUntouched;
    }
    out += same == bytes_ ? 'w' : untouched == bytes_ ? 'u' : 'p';
  }
  return out;
}

std::string End::fates() const {
  std::string out;
  for (const Message& m : messages_) {
    out += m.fate == Fate::Done ? 'd' : m.fate == Fate::Failed ? 'f' : '.';
    if (m.fate == Fate::Done && m.size != static_cast<int>(bytes_)) out += 's';
  }
  return out;
}

bool End::quiet(int ms) const {
  const std::vector<uint8_t> before(memory_.get(), memory_.get() + count_ * stride_);
  const int64_t limit = nowNs() + msToNs(ms);
  do {
    if (memcmp(before.data(), memory_.get(), before.size()) != 0) return false;
    usleep(1000);
  } while (nowNs() < limit);
  return true;
}

}  // namespace r2cc::ib
