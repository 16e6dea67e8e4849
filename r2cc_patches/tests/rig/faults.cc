#include "faults.h"

#include <chrono>

namespace r2cc::fake {
namespace {

constexpr int64_t kLimitNs = msToNs(15000);  // generous: sanitizers on a busy machine
constexpr int kHome = 0;

const char* name(Fault fault) {
  switch (fault) {
    case Fault::LinkAtSender:
      return "link lost, seen by the sender";
    case Fault::LinkAtReceiver:
      return "link lost, seen by the receiver";
    case Fault::LinkAtBoth:
      return "link lost, seen by both";
    case Fault::BlackHole:
      return "black hole";
    case Fault::ErrorAtSender:
      return "transport error at the sender";
    case Fault::ErrorAtReceiver:
      return "transport error at the receiver";
    case Fault::OneWayThere:
      return "loss on the way there";
    case Fault::OneWayBack:
      return "loss on the way back";
  }
  return "?";
}

const char* name(When when) {
  switch (when) {
    case When::Connect:
      return "during connect";
    case When::FirstMessage:
      return "at the first message";
    case When::MidStream:
      return "in mid stream";
    case When::LastMessage:
      return "at the last message";
    case When::Idle:
      return "while idle";
    case When::DuringFailover:
      return "during a failover";
    case When::DuringFailback:
      return "during a failback";
    case When::DuringBalance:
      return "during a switch to balance";
    case When::Balanced:
      return "while balanced";
  }
  return "?";
}

const char* name(Traffic traffic) {
  switch (traffic) {
    case Traffic::One:
      return "1 connection";
    case Traffic::Sixteen:
      return "16 connections";
    case Traffic::BothWays:
      return "both directions";
  }
  return "?";
}

const char* name(Count count) {
  switch (count) {
    case Count::One:
      return "1 NIC";
    case Count::Two:
      return "2 of 4 NICs";
    case Count::AllButOne:
      return "all NICs but one";
    case Count::All:
      return "all NICs for a while";
  }
  return "?";
}

constexpr int kRails = 4;

int rails(Count count) {
  return count == Count::One ? 1 : count == Count::Two ? 2 : count == Count::AllButOne ? kRails - 1 : kRails;
}

uint64_t addStreams(Rig& rig, const Case& c) {
  const Traffic traffic = c.traffic;
  const int streams = traffic == Traffic::One ? 1 : traffic == Traffic::Sixteen ? 16 : 8;
  // A second fault needs traffic that is still running when the first is dealt with; it is let go in two parts.
  const uint64_t each = (streams == 1 ? uint64_t{200} : uint64_t{40}) * (c.when == When::DuringFailback ? 2 : 1);
  for (int i = 0; i < streams; i++) {
    const bool back = traffic == Traffic::BothWays && i % 2 == 1;
    rig.stream(back ? 1 : 0, back ? 0 : 1, traffic == Traffic::Sixteen && !c.onlyNic ? i % 2 : kHome, each);
  }
  return each;
}

void limit(Rig& rig, uint64_t messages) {
  for (const Stream& s : rig.streams()) s.sender->limit = s.receiver->limit = messages;
}

bool reached(const Rig& rig, uint64_t messages) {
  return Rig::within(kLimitNs, [&] { return rig.delivered() >= messages; });
}

void pauseMs(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

/// Traffic waits while the first fault is survived and reverted; the second comes as soon as the way back is agreed.
std::string duringFailback(Rig& rig, const Case& c, uint64_t each) {
  limit(rig, each / 4);
  rig.start();
  if (!reached(rig, each / 4 * rig.streams().size())) return "did not start; ";
  inject(rig, Fault::LinkAtBoth, kHome, c.cut);
  limit(rig, each / 2);
  if (!reached(rig, each / 2 * rig.streams().size())) return "did not survive the first fault; ";
  // Asked for, or agreed: then both lanes are in the plan.
  const Type step = c.seed % 2 == 0 ? Type::Switch : Type::Switched;
  const int before = rig.seen(step);
  revert(rig, Fault::LinkAtBoth, kHome);
  limit(rig, each - 5);
  if (!Rig::within(kLimitNs, [&] { return rig.seen(step) > before; })) return "did not go back; ";
  inject(rig, c.fault, kHome, c.cut);
  limit(rig, UINT64_MAX);
  return "";
}

/// As many NICs as the case says, at the same time; all of them only for a while.
void injectAll(Rig& rig, const Case& c) {
  for (int rail = 0; rail < rails(c.count); rail++) inject(rig, c.fault, kHome + rail, c.cut);
  if (c.count != Count::All && !c.onlyNic) return;
  pauseMs(30);
  for (int rail = 0; rail < rails(c.count); rail++) revert(rig, c.fault, kHome + rail);
}

std::string duringFailover(Rig& rig, const Case& c, uint64_t each) {
  limit(rig, each / 2);
  rig.start();
  if (!reached(rig, each * rig.streams().size() / 3)) return "did not start; ";
  const int before = rig.seen(Type::Freeze);
  inject(rig, c.onlyNic ? Fault::ErrorAtSender : Fault::LinkAtSender, kHome, c.cut);
  limit(rig, UINT64_MAX);
  if (!Rig::within(kLimitNs, [&] { return rig.seen(Type::Freeze) > before; })) return "no failover; ";
  if (c.onlyNic) {
    injectAll(rig, c);
  } else {
    inject(rig, c.fault, kHome + 1, c.cut);
  }
  return "";
}

/// The home NIC is lost, its messages spread, and another of the NICs that carry them fails: before the receiver has
/// agreed to the new plan, or after.
std::string balanced(Rig& rig, const Case& c, uint64_t each) {
  limit(rig, each / 3);
  rig.start();
  if (!reached(rig, each / 3 * rig.streams().size())) return "did not start; ";
  const Type step = c.when == When::Balanced ? Type::Switched : Type::Switch;
  const int before = rig.seen(step);
  inject(rig, Fault::LinkAtBoth, kHome, c.cut);
  if (!Rig::within(kLimitNs, [&] { return rig.seen(step) > before; })) return "no balance; ";
  limit(rig, each / 3 + 12);
  if (c.when == When::Balanced && !reached(rig, each / 3 * rig.streams().size() + 6)) return "stands still; ";
  inject(rig, c.fault, kHome + 1, c.cut);
  limit(rig, UINT64_MAX);
  return "";
}

std::string atPoint(Rig& rig, const Case& c, uint64_t each) {
  const uint64_t all = each * rig.streams().size();
  const uint64_t point = c.when == When::FirstMessage ? 1 : c.when == When::LastMessage ? all - 2 : all / 2;
  if (c.when == When::Idle) limit(rig, each / 2);
  rig.start();
  if (!reached(rig, point)) return "did not start; ";
  if (c.when == When::Idle) pauseMs(3);
  injectAll(rig, c);
  if (c.when == When::Idle) pauseMs(3);
  limit(rig, UINT64_MAX);
  return "";
}

std::string play(Rig& rig, const Case& c, uint64_t each) {
  switch (c.when) {
    case When::Connect:
      rig.start();
      if (!Rig::within(kLimitNs, [&] { return rig.seen(Type::OpenLane) > 0; })) return "did not start; ";
      injectAll(rig, c);
      return "";
    case When::DuringFailover:
      return duringFailover(rig, c, each);
    case When::DuringFailback:
      return duringFailback(rig, c, each);
    case When::DuringBalance:
    case When::Balanced:
      return balanced(rig, c, each);
    default:
      return atPoint(rig, c, each);
  }
}

}  // namespace

std::string Case::name() const {
  return std::string(fake::name(fault)) + " " + fake::name(when) + ", " + fake::name(traffic) +
         (lends      ? ", lent"
          : plain    ? ", kept"
          : needsAck ? ", buffered"
                     : ", direct") +
         (cut == Cut::Hold ? ", bytes held" : ", bytes lost") + ", seed " + std::to_string(seed) + ", mode " +
         std::to_string(mode) + ", " + (onlyNic ? "the only NIC" : fake::name(count)) +
         (few ? ", few large messages" : "") + (window > 0 ? ", window " + std::to_string(window) : "");
}

bool Case::makesSense() const {
  const bool needsBalance = when == When::DuringBalance || when == When::Balanced;
  const bool several = when == When::DuringFailover || when == When::DuringFailback || needsBalance;
  if (onlyNic && (count != Count::One || needsBalance || when == When::DuringFailback)) return false;
  return (mode >= 2 || !needsBalance) && (count == Count::One || !several);
}

void inject(Rig& rig, Fault fault, int rail, Cut cut) {
  const Nic nic{0, rail};
  if (fault == Fault::ErrorAtSender) return rig.fabric.breakComms(nic);
  if (fault == Fault::ErrorAtReceiver) return rig.fabric.breakComms({1, rail});
  if (fault == Fault::OneWayThere) return rig.fabric.cutOneWay({0, rail}, {1, rail});
  if (fault == Fault::OneWayBack) return rig.fabric.cutOneWay({1, rail}, {0, rail});
  rig.fabric.cut(nic, cut);
  if (fault == Fault::LinkAtSender || fault == Fault::LinkAtBoth) rig.link(0, rail, false);
  if (fault == Fault::LinkAtReceiver || fault == Fault::LinkAtBoth) rig.link(1, rail, false);
}

void revert(Rig& rig, Fault fault, int rail) {
  rig.fabric.heal({0, rail});
  rig.fabric.healOneWay({0, rail}, {1, rail});
  rig.fabric.healOneWay({1, rail}, {0, rail});
  if (fault == Fault::LinkAtSender || fault == Fault::LinkAtBoth) rig.link(0, rail, true);
  if (fault == Fault::LinkAtReceiver || fault == Fault::LinkAtBoth) rig.link(1, rail, true);
}

std::string runCase(const Case& c) {
  RigOptions options;
  options.needsAck = c.needsAck;
  options.plain = c.plain;
  options.lends = c.lends;
  options.window = c.window;
  options.seed = c.seed;
  // Small ones are copied, half of the large ones are large enough to be lent.
  if (c.lends) options.sizes = [](uint64_t number) { return number % 3 == 0 ? 512 : 45000 + number % 7 * 6000; };
  options.mode = c.mode;
  if (c.few) options.slots = 2, options.bytes = c.seed % 2 == 0 ? kSlotBytes : 0;
  if (c.count != Count::One || c.mode > 1) options.rails = kRails;
  if (c.onlyNic) options.rails = 1;
  Rig rig(options);
  const uint64_t each = addStreams(rig, c);
  std::string out = play(rig, c, each);
  if (!rig.allDone(kLimitNs)) out += "not finished in time; ";
  rig.stop();
  out += rig.problems();
  rig.fabric.healAll();  // what was held up arrives now, in whatever buffer is still open to it
  rig.closeStreams();
  rig.endEngine(0), rig.endEngine(1);
  if (!rig.fabric.counts().clean()) out += "comms, listens, half-made comms or registrations are left over; ";
  const auto violations = rig.fabric.violations();
  if (out.empty() && !violations.empty()) out = "while closing: " + violations[0];
  return out;
}

}  // namespace r2cc::fake
