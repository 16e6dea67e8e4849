#include "agree/session.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "agree/net/hub.h"
#include "agree/net/spoke.h"
#include "base/clock.h"

namespace r2cc::agree {
namespace {

/// Of a user's choice: no longer than can be added to a time.
int64_t ns(std::chrono::milliseconds time) {
  constexpr std::chrono::milliseconds kMost = std::chrono::hours(24 * 365);
  return msToNs(std::min(time, kMost).count());
}

Coordinator::Timing timing(const Options& o) { return {ns(o.prepare), ns(o.promise), ns(o.gather), ns(o.quiet)}; }

Patience patience(const Options& o) { return {ns(o.hold), ns(o.closed), ns(o.silence)}; }

/// What a caller's function threw, for a message.
template <class F>
std::string thrownBy(const F& what) {
  try {
    what();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
  return "";
}

}  // namespace

Session::Session(Loop& loop, Worker& worker, const Options& options, std::vector<Card> cards, Decide decide,
                 Prepare prepare)
    : loop_(loop),
      worker_(worker),
      options_(options),
      cards_(std::move(cards)),
      decide_(std::move(decide)),
      prepare_(std::move(prepare)),
      gate_(options.rank, cards_[static_cast<size_t>(options.rank)].where, options.aborted),
      member_(static_cast<Member::Actions&>(*this)) {
  if (options.rank == 0) {
    coordinator_ =
        std::make_unique<Coordinator>(static_cast<Coordinator::Actions&>(*this), options.ranks, timing(options));
  }
}

void Session::start(Fd listener) {
  if (options_.rank == 0) {
    transport_ =
        std::make_unique<Hub>(loop_, *this, std::move(listener), cards_, patience(options_), options_.encryption.get());
  } else {
    const std::string& from = cards_[static_cast<size_t>(options_.rank)].host;
    transport_ = std::make_unique<Spoke>(loop_, *this, options_.rank, cards_[0], from, patience(options_),
                                         options_.encryption.get());
  }
  loop_.add(*this);
}

void Session::stop() {
  loop_.remove(*this);
  transport_.reset();
}

AgreementBroken Session::aborted() const {
  return {options_.rank, cards_[static_cast<size_t>(options_.rank)].where, "aborted"};
}

void Session::abort() {
  if (transport_) member_.leave(false);
}

void Session::leave() {
  member_.leave(true);
  drainOwn();  // rank 0 hears itself, and tells the others
}

void Session::end() {
  const bool aborted = options_.aborted && options_.aborted();
  if (aborted || transport_->delivered()) return stop();
  endsAt_ = loop_.now() + ns(options_.goodbye);
  ending_ = shared_from_this();
  loop_.stay(1);
}

// ---- Timed

int64_t Session::deadline() const {
  int64_t next = transport_->deadline();
  if (ending_) next = std::min(next, endsAt_);
  if (coordinator_) next = std::min(next, coordinator_->deadline());
  if (toReport_ && (options_.rank == 0 || transport_->able())) next = std::min(next, reportAt_);
  return next;
}

void Session::tick(int64_t now) {
  takeReport();
  drainOwn();
  transport_->tick(now);
  if (coordinator_) coordinator_->tick(now);
  passOn();
  drainOwn();
  if (!ending_ || (now < endsAt_ && !transport_->delivered())) return;
  loop_.post([self = std::exchange(ending_, nullptr)] {  // not while the loop goes through what ticks
    self->stop();
    self->loop_.stay(-1);
  });
}

void Session::drainOwn() {
  while (!own_.empty()) {
    const auto [toCoordinator, message] = std::move(own_.front());
    own_.pop_front();
    if (toCoordinator) {
      coordinator_->on(0, message, loop_.now());
    } else {
      member_.on(message);
    }
  }
}

// ---- reports

void Session::report(std::string blob) {
  {
    const std::lock_guard lock(mutex_);
    if (blob == lastReport_) return;
    lastReport_ = blob;
    // The loop will look anyway when it has not taken the last one yet.
    if (std::exchange(newReport_, std::move(blob))) return;
  }
  loop_.post([] {});  // tick() follows
}

void Session::takeReport() {
  const std::lock_guard lock(mutex_);
  if (newReport_) toReport_ = std::exchange(newReport_, std::nullopt);
}

// One at a time, and not too often: what comes meanwhile replaces what waits.
void Session::passOn() {
  if (!toReport_ || loop_.now() < reportAt_ || (options_.rank != 0 && !transport_->able())) return;
  reportAt_ = loop_.now() + ns(options_.gather) / 2;
  Message message;
  message.type = Type::Report;
  message.text = std::move(*toReport_);
  toReport_.reset();
  if (!member_.ended()) send(message);
}

// ---- Upward

void Session::received(int rank, const Message& message) {
  if (coordinator_) {
    coordinator_->on(rank, message, loop_.now());
  } else {
    member_.on(message);
  }
}

/// That says nothing about the job: it may be this network alone. A rank that died is told of by those who send to it.
void Session::unreached(int rank, const std::string& cause, bool closed) {
  if (ended()) return;
  const std::string& where = cards_[static_cast<size_t>(rank)].where;
  if (coordinator_) {
    coordinator_->unreached(rank, where, cause, loop_.now());
  } else {
    gate_.unreached(AgreementBroken(rank, where, cause + ", in the middle of a switch (R2CC_HOLD_MS)"));
  }
  const std::string line = "no switch until rank " + std::to_string(rank) + " (" + where +
                           ") is reached again over the network on which ranks agree: " + cause;
  if (coordinator_ && !closed && !std::exchange(saidUnreached_, true)) {
    warn(line);
  } else {
    log(line);
  }
}

void Session::reached(int rank, bool again) {
  if (!coordinator_) gate_.unreached(std::nullopt);
  saidUnreached_ = saidUnreached_ && !transport_->able();
  if (!again) return;
  count(&Stats::reconnects);
  log("the connection to rank " + std::to_string(rank) + " is back");
}

/// Anybody may call: said at the first, and then whenever there are ten times as many.
void Session::refused() {
  const uint64_t now = count(&Stats::refused);
  if (now < nextRefusal_) return;
  nextRefusal_ = now * 10;
  warn(std::to_string(now) + " connection(s) or message(s) that were not genuine were refused so far (a port scan?)");
}

bool Session::ended() const { return coordinator_ ? coordinator_->ended() : member_.ended(); }

// ---- Coordinator::Actions

void Session::send(int rank, const Message& message) {
  if (rank == 0) {
    own_.emplace_back(false, message);
  } else {
    transport_->send(rank, message);
  }
}

void Session::later(const std::function<void(Session&)>& what) {
  loop_.post([weak = weak_from_this(), what] {
    const auto session = weak.lock();
    if (session && session->transport_) what(*session);
  });
}

void Session::decide(const std::vector<std::string>& reports) {
  const auto say = [](Session& session, const std::string& proposal, const std::string& error) {
    if (!error.empty()) session.log("no switch: deciding failed: " + error);
    session.coordinator_->decided(error.empty() ? proposal : "", session.loop_.now());
  };
  const auto job = [this, reports, say] {
    std::string proposal;  // the worker ends before the session does
    const std::string error = thrownBy([&] { proposal = decide_(reports); });
    later([=](Session& session) { say(session, proposal, error); });
  };
  const std::string none = thrownBy([&] { worker_.post(job); });
  if (!none.empty()) say(*this, "", none);
}

bool Session::able() {
  constexpr size_t kMostPending = 4;
  return transport_->able() && gate_.pending() < kMostPending;
}

void Session::log(const std::string& line) {
  if (options_.log && endsAt_ == 0) options_.log((options_.name.empty() ? "" : options_.name + ": ") + line);
}

// ---- Member::Actions

void Session::send(const Message& message) {
  if (coordinator_) {
    own_.emplace_back(true, message);
  } else {
    transport_->send(0, message);
  }
}

void Session::work(uint64_t round, const std::string& text) {
  const auto job = [this, round, text] {
    Prepared prepared = true;
    const std::string error = thrownBy([&] {
      if (prepare_) prepared = prepare_(text);
    });
    const bool able = prepared.able && error.empty();
    later([round, able, say = able ? textOf(prepared.terms) : error, hash = hashOf(prepared.terms)](Session& session) {
      session.member_.worked(round, able, say, hash);
    });
  };
  const std::string none = thrownBy([&] { worker_.post(job); });
  if (!none.empty()) member_.worked(round, false, none);
}

void Session::commit(Decision decision) {
  gate_.commit(std::move(decision));
  count(&Stats::switches);
}

void Session::withdraw(const std::string& why) {
  gate_.withdraw();
  const std::lock_guard lock(mutex_);
  stats_.withdrawn++;
  stats_.lastWithdrawal = why;
}

void Session::fail(const AgreementBroken& why) {
  gate_.fail(why);
  log(why.what());
}

void Session::warn(const std::string& line) {
  if (!options_.warn || endsAt_ != 0) return log(line);
  options_.warn((options_.name.empty() ? "" : options_.name + ": ") + line);
}

uint64_t Session::count(uint64_t Stats::* what) {
  const std::lock_guard lock(mutex_);
  return ++(stats_.*what);
}

Stats Session::stats() const {
  const GateStats waited = gate_.stats();
  const std::lock_guard lock(mutex_);
  Stats stats = stats_;
  stats.waits = waited.waits;
  stats.waitedNs = waited.waitedNs;
  return stats;
}

}  // namespace r2cc::agree
