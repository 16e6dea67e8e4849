#include "agree/agreement.h"

#include <unistd.h>

#include <utility>

#include "agree/session.h"
#include "base/file_limit.h"
#include "base/json/text.h"

namespace r2cc::agree {
namespace {

void check(const Options& o) {
  if (o.ranks < 1 || o.rank < 0 || o.rank >= o.ranks) {
    throw std::invalid_argument("rank " + std::to_string(o.rank) + " of " + std::to_string(o.ranks));
  }
  const auto zero = std::chrono::milliseconds(0);
  if (o.hold < zero || o.closed < zero || o.silence <= zero || o.prepare <= zero || o.promise <= zero) {
    throw std::invalid_argument("the agreement's times must be positive");
  }
}

std::string whereAmI(const std::string& address) {
  char host[256] = "";
  (void)gethostname(host, sizeof(host) - 1);
  return address + ", host " + host + ", process " + std::to_string(getpid());
}

/// Where nothing is encrypted that is no term, as it was none in earlier builds.
Terms termsOf(const Options& options) {
  Terms terms = options.terms;
  if (options.encryption == nullptr) return terms;
  const uint32_t check = options.encryption->check;
  terms.push_back({"R2CC_TLS", check == 0 ? "1" : "1 (R2CC_TLS_SECRET_FILE " + hex(check) + ")"});
  return terms;
}

std::vector<Card> exchange(const Card& mine, const Options& options, const AllGather& gather) {
  const std::vector<std::string> texts = gather(encode(mine));
  if (texts.size() != static_cast<size_t>(options.ranks)) {
    throw std::runtime_error("the agreement's addresses: " + std::to_string(texts.size()) + " of " +
                             std::to_string(options.ranks) + " came");
  }
  std::vector<Card> cards;
  cards.reserve(texts.size());
  std::vector<Stated> stated;
  for (const std::string& text : texts) {
    cards.push_back(decodeCard(text));
    stated.push_back({cards.back().terms, cards.back().where, cards.back().termsHash});
  }
  const std::string different = difference(stated);
  if (!different.empty()) {
    throw Disagreement("the ranks do not agree: " + different + ". All must have the same: set it alike, start again");
  }
  return cards;
}

/// Empty: all take part.
std::string whoCannot(const std::vector<Card>& cards) {
  std::string first;
  int more = -1;
  for (size_t rank = 0; rank < cards.size(); rank++) {
    if (cards[rank].cannot.empty()) continue;
    if (++more > 0) continue;
    first = "rank " + std::to_string(rank) + " (" + cards[rank].where + ") cannot take part: " + cards[rank].cannot;
  }
  return more > 0 ? first + "; nor can " + std::to_string(more) + " more" : first;
}

}  // namespace

class Agreement::Impl {
 public:
  Impl(const Options& options, const AllGather& gather, Decide decide, Prepare prepare) {
    Card mine;
    mine.host = options.bindAddress;
    mine.where = whereAmI(options.bindAddress);
    mine.terms = textOf(termsOf(options));
    mine.termsHash = hashOf(termsOf(options));
    Fd listener;
    mine.cannot = options.cannot;
    try {
      if (mine.cannot.empty()) listener = begin(options, mine);
    } catch (const std::exception& problem) {
      mine.cannot = problem.what();
    }
    std::vector<Card> cards = exchange(mine, options, gather);  // the others wait for that, whatever is wrong here
    never_ = whoCannot(cards);
    std::string why = never_;
    if (never_.empty()) why = start(options, std::move(cards), std::move(listener), decide, prepare);
    if (why.empty()) return;
    alone_ = std::make_unique<Alone>(options.rank, mine.where, options.aborted);
    const bool warns = options.warn && (never_.empty() || options.rank == 0);  // what all know is said once
    const auto& say = warns ? options.warn : options.log;
    if (say) say((options.name.empty() ? "" : options.name + ": ") + "no switch ever: " + why);
  }

  ~Impl() {
    if (session_ == nullptr) return;
    loop_->call([&] { session_->leave(); });
    worker_.reset();  // what it posts comes before what follows, or finds nothing to do
    loop_->call([&] { session_->end(); });
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Gate& gate() { return alone_ != nullptr ? alone_->gate : session_->gate(); }
  const std::string& never() const { return never_; }
  /// Null where this rank takes no part.
  Session* session() { return session_.get(); }
  void abort() {
    if (session_ == nullptr) return alone_->gate.fail(alone_->aborted);
    session_->gate().fail(session_->aborted());  // at once, for whoever waits
    loop_->post([session = session_] { session->abort(); });
  }
  bool foreign() const { return loop_ != nullptr && loop_->foreign(); }

 private:
  /// Of a rank that takes no part: every group is entered, nothing is switched.
  struct Alone {
    Alone(int rank, const std::string& where, std::function<bool()> isAborted)
        : gate(rank, where, std::move(isAborted)), aborted(rank, where, "aborted") {}
    Gate gate;
    const AgreementBroken aborted;
  };
  /// What it takes to be reached.
  Fd begin(const Options& options, Card& mine) {
    loop_ = Loop::shared();
    const Address address = parseAddress(options.bindAddress, 0);
    if (options.rank != 0) return {};
    raiseFileLimit();  // a descriptor for each rank
    Fd listener = listenOn(address);
    mine.port = portOf(boundTo(listener));
    mine.agreement = randomId();
    mine.key = randomKey();
    return listener;
  }
  /// Why it cannot. The others are not told: it is as if it were never reached.
  std::string start(const Options& options, std::vector<Card> cards, Fd listener, Decide& decide, Prepare& prepare) {
    std::string cannot;
    worker_ = std::make_unique<Worker>();
    session_ =
        std::make_shared<Session>(*loop_, *worker_, options, std::move(cards), std::move(decide), std::move(prepare));
    loop_->call([&] {
      try {
        session_->start(std::move(listener));
      } catch (const std::exception& problem) {
        cannot = problem.what();
      }
    });
    if (cannot.empty()) return "";
    session_.reset();
    return "this rank cannot take part: " + cannot;
  }

  std::shared_ptr<Loop> loop_;
  std::unique_ptr<Worker> worker_;
  std::shared_ptr<Session> session_;
  std::unique_ptr<Alone> alone_;
  std::string never_;
};

std::unique_ptr<Agreement> Agreement::make(const Options& options, const AllGather& gather, Decide decide,
                                           Prepare prepare) {
  check(options);
  auto impl = std::make_unique<Impl>(options, gather, std::move(decide), std::move(prepare));
  Gate& gate = impl->gate();
  return std::unique_ptr<Agreement>(new Agreement(gate, std::move(impl)));
}

Agreement::Agreement(Gate& gate, std::unique_ptr<Impl> impl) : gate_(gate), impl_(std::move(impl)) {}

Agreement::~Agreement() {
  // In a child of fork() there is no thread to say goodbye, and locks may be held for ever: it leaves all as it is.
  [[maybe_unused]] const Impl* const left = impl_->foreign() ? impl_.release() : nullptr;
}

const std::string& Agreement::never() const { return impl_->never(); }

void Agreement::report(std::string blob) {
  if (blob.size() > kMaxReport) throw std::invalid_argument("a report of " + std::to_string(blob.size()) + " bytes");
  if (impl_->session() != nullptr && !impl_->foreign()) impl_->session()->report(std::move(blob));
}

void Agreement::abort() {
  if (!impl_->foreign()) impl_->abort();
}

Stats Agreement::stats() const {
  return impl_->session() == nullptr || impl_->foreign() ? Stats() : impl_->session()->stats();
}

}  // namespace r2cc::agree
