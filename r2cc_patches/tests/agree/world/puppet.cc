#include "puppet.h"

#include <poll.h>
#include <sys/socket.h>

#include <stdexcept>

namespace r2cc::agree::test {

Puppet::Puppet(const Card& root, int rank, Answer answer) : answer_(std::move(answer)) {
  meet(root, rank);
  thread_ = std::thread([this] { run(); });
}

void Puppet::stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  const std::lock_guard lock(mutex_);
  channel_.reset();
}

void Puppet::meet(const Card& root, int rank) {
  const Address to = parseAddress(root.host, root.port);
  channel_ = std::make_unique<Channel>(startConnecting({}, to));
  const Key door = doorKey(root.key, root.agreement, static_cast<uint32_t>(rank));
  const Hello hello = newHello(root.agreement, static_cast<uint32_t>(rank));
  channel_->write(seal(hello, door));
  if (!eventually([&] {
        (void)channel_->flush();
        (void)channel_->fill();
        return channel_->peek(kWelcomeBytes) != nullptr;
      })) {
    throw std::runtime_error("no welcome");
  }
  const auto welcome = readWelcome(channel_->peek(kWelcomeBytes), hello, door);
  if (!welcome) throw std::runtime_error("a wrong welcome");
  channel_->take(kWelcomeBytes);
  const SessionKeys keys = sessionKeys(door, hello, *welcome, nullptr);
  channel_->secure(keys.down, keys.up, kMaxDown);
  channel_->send(link_.ping());
}

void Puppet::run() {
  while (!stop_ && !hungUp_) {
    {
      const std::lock_guard lock(mutex_);
      if (!channel_->fill()) hungUp_ = true;
      while (const auto frame = channel_->next()) {
        if (link_.receive(*frame) != Link::Verdict::Take) continue;
        heard_.push_back(frame->message);
        const Message answer = answer_(frame->message);
        channel_->send(answer.type == Type::Ping ? link_.ping() : link_.add(answer));
      }
      (void)channel_->flush();
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

void Puppet::say(Message message) {
  const std::lock_guard lock(mutex_);
  channel_->send(link_.add(std::move(message)));
}

void Puppet::sayRaw(const Frame& frame) {
  const std::lock_guard lock(mutex_);
  channel_->send(frame);
}

std::vector<Message> Puppet::heard() {
  const std::lock_guard lock(mutex_);
  return heard_;
}

Puppet::Answer silentFrom(Type type) {
  return [type](const Message& message) {
    Message answer;
    answer.round = message.round;
    answer.ok = 1;
    if (message.type == Type::Offer && type != Type::Ready) answer.type = Type::Ready;
    if (message.type == Type::Prepare && type != Type::Ready && type != Type::Promised) {
      answer.type = Type::Promised;
      answer.group = message.group;
      answer.marks = {{}};
    }
    return answer;
  };
}

Stage::Stage(int ranks, const std::function<void(Options&)>& tune, Puppet::Answer answer)
    : real_(static_cast<size_t>(ranks) - 1) {
  Exchange exchange(ranks);
  Card root;
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks - 1; rank++) {
    threads.emplace_back([&, rank] {
      Options options;
      options.rank = rank, options.ranks = ranks;
      options.gather = options.quiet = Ms(2);
      options.goodbye = Ms(50);  // a puppet hears it and does not say so
      tune(options);
      const AllGather gather = [&](const std::string& mine) { return exchange.gather(rank, mine); };
      real_[static_cast<size_t>(rank)] = Agreement::make(options, gather, joined, {});
    });
  }
  Card mine;
  mine.host = "127.0.0.1", mine.where = "a puppet";
  root = decodeCard(exchange.gather(ranks - 1, encode(mine))[0]);
  for (std::thread& thread : threads) thread.join();
  puppet_ = std::make_unique<Puppet>(root, ranks - 1, std::move(answer));
}

}  // namespace r2cc::agree::test
