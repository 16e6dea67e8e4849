// A live engine against a peer that has the key and breaks the rules: any messages in any order, honest answers in
// between so that connections come up, NCCL's calls meanwhile. One input is one such life.
#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "bed.h"
#include "input.h"
#include "messages.h"
#include "rig/door.h"
#include "rig/fabric/fake_inner.h"
#include "wire/keys.h"

using namespace r2cc;
using namespace r2cc::fuzz;

namespace {

constexpr int kSteps = 80;

/// A message the engine sent.
struct Said {
  bool toListener;  // it connected to us
  Type type;
  std::vector<uint8_t> body;
};

/// The broken peer: its ends of the lanes, and what it has heard.
class World {
 public:
  explicit World(Input& in) : in_(in), fabric_(2, in.byte() % 2 == 0, 1), ops_(*fabric_.inner().ops) {
    {
      const std::lock_guard<std::mutex> lock(handlesMutex());
      genuineHandles().clear();
    }
    ops_.unlockHandle = isGenuine;
    Config config;
    config.holdNs = msToNs(30);
    engine_ = std::make_unique<Engine>(
        config, InnerNet{fabric_.inner().net, &ops_}, ourNics(), [](const std::string&) {},
        [this](size_t, const NicAddress&, const std::vector<uint8_t>& bytes, SideChannel::Way) {
          return hear(bytes), false;
        });
    learnOurKey();
  }
  ~World() {
    while (!ends_.empty()) closeEnd(0);
    if (listen_ != nullptr) engine_->closeListen(listen_);
    engine_.reset();
    for (const auto& [dev, listen] : listens_) ops_.cancelListen(listen);
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  void run() {
    for (int i = 0; i < kSteps && !in_.empty(); i++) step();
    const EngineDoor::Held held = EngineDoor::held(*engine_);
    if (held.peers > 2 || held.mostNics > kMaxNics || held.mostArrived > 64) abort();
    if (held.mostPaths > kRails * kMaxNics || fabric_.counts().listens > 64 * kSteps) abort();
    for (const std::string& violation : fabric_.violations()) {
      fprintf(stderr, "%s\n", violation.c_str());
      abort();  // the engine broke its contract with the transport
    }
  }

 private:
  static constexpr uint64_t kPeer = 0x7065657270656572;
  struct End {
    bool sends = false;
    void* comm = nullptr;
    void* mr = nullptr;
    InnerHandle handle{};
    std::vector<uint8_t> memory = std::vector<uint8_t>(4096);
    std::vector<void*> requests;
    int posted = 0;
  };

  /// The key of the listener travels in its handle.
  void learnOurKey() {
    InnerHandle handle{};
    (void)engine_->listen(fabric_.context(0), 0, handle.data(), &listen_);
    ConnectHandle ours;
    if (!readHandle(handle.data(), ours)) abort();
    engineId_ = ours.process;
    listenId_ = ours.listen;
    toUs_ = pairKey(ours.key, kPeer, engineId_);
    fromUs_ = pairKey(kListenerKey, engineId_, kPeer);
  }

  void hear(const std::vector<uint8_t>& bytes) {
    const auto parsed = Parsed::open(bytes.data(), bytes.size());
    if (!parsed) abort();
    const bool toListener = parsed->header().keyOfSender == 0;
    const std::lock_guard<std::mutex> lock(mutex_);
    parsed->forEach([&](Type type, Reader& r) {
      Said said{toListener, type, std::vector<uint8_t>(r.left())};
      for (uint8_t& b : said.body) r(b);
      const bool routine = type == Type::Ack || type == Type::Bye || type == Type::Pong;
      if (said_.size() < 64 && !routine) said_.push_back(std::move(said));
    });
  }

  /// One datagram from the peer; `asListener`: over the connections that our engine made to it.
  void say(bool asListener, Type type, const std::vector<uint8_t>& body) {
    std::vector<uint8_t> bytes;
    Header header;
    header.from = kPeer, header.to = engineId_, header.seq = ++seq_, header.keyOfSender = asListener ? 1 : 0;
    header.nicsUp = nicsUp_, header.nicsVersion = nicsVersion_;
    Writer w(bytes);
    w(kMagic), w(kWireVersion), w(header), w(type), w(static_cast<uint16_t>(body.size()));
    bytes.insert(bytes.end(), body.begin(), body.end());
    const Key& key = asListener ? fromUs_ : toUs_;
    const Tag tag = sipTag(key, bytes.data(), bytes.size());
    bytes.insert(bytes.end(), tag.begin(), tag.end());
    const int rail = static_cast<int>(seq_ % kRails);
    EngineDoor::datagram(*engine_, static_cast<size_t>(rail), address(1, rail), bytes);
  }
  template <class M>
  void say(bool asListener, const M& message) {
    const Encoding e(message);
    say(asListener, M::kType, e.bytes);
  }
  struct Encoding {
    template <class M>
    explicit Encoding(const M& message) {
      Writer w(bytes);
      w(message);
    }
    std::vector<uint8_t> bytes;
  };
  template <class M>
  static M read(const Said& said) {
    M message;
    Reader r(said.body.data(), said.body.size());
    r(message);
    return message;
  }

  void step() {
    switch (in_.below(16)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
        return answer();
      case 5:
      case 6:
      case 7:
        return anyMessage();
      case 8:
        return say(in_.byte() % 2 != 0, static_cast<Type>(in_.byte()), in_.bytes(in_.byte()));
      case 9:
        return wait();
      case 10:
        return connectOrHello();
      case 11:
      case 12:
        return post();
      case 13:
        return links();
      case 14:
        return makeLanes();
      default:
        return rare();
    }
  }

  void wait() {
    if (waits_++ < 8) std::this_thread::sleep_for(std::chrono::microseconds(500 * (1 + in_.below(6))));
  }

  void connectOrHello() {
    if (in_.byte() % 2 != 0) {
      Hello hello;
      hello.connection = 1 + in_.below(3);
      hello.listen = listenId_;
      for (int rail = 0; rail < kRails; rail++) hello.nics.push_back(address(1, rail));
      say(false, hello);
      return;
    }
    if (ends_.size() >= 4) return;
    ConnectHandle to;
    to.process = kPeer, to.listen = 1, to.key = kListenerKey;
    for (int rail = 0; rail < kRails; rail++) to.nics.push_back(address(1, rail));
    End end;
    end.sends = true;
    writeHandle(to, end.handle.data());
    ends_.push_back(std::move(end));
  }

  /// NCCL polls connect and accept; what comes up gets memory and may post.
  void poll() {
    void* comm = nullptr;
    if (listen_ != nullptr && engine_->accept(listen_, &comm) == ncclSuccess && comm != nullptr) {
      End end;
      end.comm = comm;
      ends_.push_back(std::move(end));
    }
    for (End& end : ends_) {
      const bool ours = end.sends && end.comm == nullptr;
      if (ours) (void)engine_->connect(fabric_.context(0), 0, end.handle.data(), &end.comm);
      if (end.comm == nullptr || end.mr != nullptr) continue;
      (void)engine_->regMr(end.comm, end.memory.data(), end.memory.size(), NCCL_PTR_HOST, 0, -1, &end.mr);
    }
  }

  void post() {
    poll();
    if (ends_.empty()) return;
    End& end = ends_[in_.byte() % ends_.size()];
    if (end.comm == nullptr || end.mr == nullptr) return;
    auto* connection = static_cast<Connection*>(end.comm);
    if (end.requests.size() < 8 && in_.byte() % 4 != 0) {
      void* request = nullptr;
      void* data = end.memory.data();
      const ncclResult_t result =
          end.sends ? static_cast<SendConnection*>(connection)->isend(data, 64, end.posted, end.mr, nullptr, &request)
                    : static_cast<RecvConnection*>(connection)->irecv(data, 64, end.posted, end.mr, nullptr, &request);
      if (result == ncclSuccess && request != nullptr) end.requests.push_back(request), end.posted++;
    } else if (!end.requests.empty()) {
      int done = 0;
      auto* request = static_cast<r2cc::Request*>(end.requests.front());
      if (connection->test(*request, &done, nullptr) == ncclSuccess && done) end.requests.erase(end.requests.begin());
    }
  }

  /// Answers the oldest thing heard as a good peer would, so that the rest of the input meets connections that work.
  void answer() {
    poll();
    makeLanes();
    Said said{};
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (said_.empty()) return;
      said = std::move(said_.front());
      said_.erase(said_.begin());
    }
    if (said.type == Type::Ping) return say(said.toListener, Pong{read<Ping>(said).round});
    return said.toListener ? answerSender(said) : answerReceiver(said);
  }

  void answerSender(const Said& said) {
    if (said.type == Type::Hello) {
      Welcome welcome;
      welcome.connection = read<Hello>(said).connection;
      welcome.known = 1;
      for (int rail = 0; rail < kRails; rail++) welcome.nics.push_back(address(1, rail));
      say(true, welcome);
    } else if (said.type == Type::OpenLane) {
      const auto open = read<OpenLane>(said);
      LaneHandle answer;
      answer.connection = open.connection, answer.lane = open.lane;
      void* listen = nullptr;
      const int dev = open.remoteDev % kRails;
      if (listens_.size() >= 16) return;
      if (fabric_.inner().net->listen(fabric_.context(1), dev, answer.handle.data(), &listen) != ncclSuccess) return;
      {
        const std::lock_guard<std::mutex> lock(handlesMutex());
        genuineHandles().push_back(answer.handle);
      }
      listens_.emplace_back(dev, listen);
      say(true, answer);
      LaneUp up;
      up.connection = open.connection, up.lane = open.lane;
      say(true, up);
    } else if (said.type == Type::Freeze) {
      const auto freeze = read<Freeze>(said);
      Fenced fenced;
      fenced.connection = freeze.connection, fenced.epoch = freeze.epoch, fenced.laneUsable = 1;
      fenced.delivered = freeze.completed;
      say(true, fenced);
    } else if (said.type == Type::Switch) {
      const auto change = read<Switch>(said);
      Switched agreed;
      agreed.connection = change.connection, agreed.epoch = change.epoch, agreed.boundary = change.boundary;
      say(true, agreed);
    }
  }

  void answerReceiver(const Said& said) {
    if (said.type == Type::Welcome) {
      OpenLane open;
      open.connection = read<Welcome>(said).connection, open.lane = ++lanes_;
      say(false, open);
    } else if (said.type == Type::LaneHandle) {
      const auto handle = read<LaneHandle>(said);
      if (handle.failed == 0 && halves_.size() < 16)
        halves_.push_back({handle.handle, {handle.connection, handle.lane}});
    } else if (said.type == Type::LaneUp) {
      const auto up = read<LaneUp>(said);
      Freeze freeze;
      freeze.connection = up.connection, freeze.epoch = ++epoch_, freeze.lane = up.lane;
      say(false, freeze);
    }
  }

  /// The peer's side of connecting lanes to our listens.
  void makeLanes() {
    for (auto& half : halves_) {
      void* comm = nullptr;
      if (half.done) continue;
      half.done =
          fabric_.inner().net->connect(fabric_.context(1), 0, half.handle.data(), &comm, nullptr) != ncclSuccess;
      half.done |= comm != nullptr;
    }
  }

  void anyMessage() {
    const uint8_t choice = in_.byte();
    forEachMessage([&](auto message) {
      if (static_cast<uint8_t>(decltype(message)::kType) != 1 + choice % 17) return;
      Filler fill(in_);
      fill(message);
      say(choice >= 128, message);
    });
  }

  void links() {
    if (in_.byte() % 2 != 0) {
      nicsUp_ = static_cast<uint32_t>(in_.number());
      nicsVersion_++;
    } else {
      engine_->reportLink(in_.below(kRails), in_.byte() % 2 != 0);
    }
  }

  void rare() {
    switch (in_.below(6)) {
      case 0:
        if (!ends_.empty()) closeEnd(in_.byte() % ends_.size());
        return;
      case 1:
        fabric_.breakComms({0, in_.below(kRails)});
        return;
      case 2:
        return EngineDoor::refused(*engine_, 0, address(1, 0), in_.bytes(200));
      case 3:
        return EngineDoor::datagram(*engine_, 0, address(1, 0), in_.bytes(200));
      case 4:
        seq_ = in_.number();
        return;
      default:
        if (!ends_.empty()) {
          End& end = ends_[in_.byte() % ends_.size()];
          if (end.comm != nullptr && end.mr != nullptr) (void)engine_->deregMr(end.comm, end.mr);
          end.mr = nullptr;
        }
    }
  }

  void closeEnd(size_t i) {
    End& end = ends_[i];
    // A connect that never came is given up: there is nothing to close, the engine ends it by itself.
    if (end.comm != nullptr && end.mr != nullptr) (void)engine_->deregMr(end.comm, end.mr);
    if (end.comm != nullptr) end.sends ? engine_->closeSend(end.comm) : engine_->closeRecv(end.comm);
    ends_.erase(ends_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  struct Half {
    InnerHandle handle;
    std::pair<uint64_t, uint32_t> lane;
    bool done = false;
  };
  const Key kListenerKey = {9, 8, 7};
  Input& in_;
  fake::Fabric fabric_;
  InnerOps ops_;
  std::mutex mutex_;
  std::vector<Said> said_;
  std::unique_ptr<Engine> engine_;
  void* listen_ = nullptr;
  std::vector<End> ends_;
  std::vector<std::pair<int, void*>> listens_;
  std::vector<Half> halves_;
  Key toUs_{}, fromUs_{};
  uint64_t engineId_ = 0, listenId_ = 0, seq_ = 0;
  uint32_t nicsUp_ = ~uint32_t{0}, nicsVersion_ = 1;
  uint32_t lanes_ = 0, epoch_ = 0;
  int waits_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input in(data, size);
  World(in).run();
  return 0;
}
