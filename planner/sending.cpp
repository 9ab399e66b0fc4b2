#include "planner/sending.h"

#include <algorithm>
#include <limits>

#include "core/error.h"

namespace olm2 {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

size_t at(int position) {
  return static_cast<size_t>(position);
}

class Sender {
 public:
  Sender(const SendingRoom& room, std::vector<Send>& sends)
      : room_(room), sends_(sends), done_(sends.size(), kNever), ready_(sends.size(), kNever) {
    made_.resize(room.seconds.size() + 1);
    leaving_.resize(room.seconds.size() + 1);
    for (size_t k = 0; k < sends.size(); ++k) {
      made_[at(std::max(sends[k].made, 0))].push_back(k);
      leaving_[at(sends[k].leave)].push_back(k);
    }
  }

  std::vector<double> run() {
    std::vector<double> start;
    for (position_ = 0; at(position_) < room_.seconds.size(); ++position_) {
      while (start_next(now_)) {
      }
      give_up();
      start.push_back(now_);
      now_ += room_.seconds[at(position_)];
      for (const size_t k : made_[at(position_)]) {
        ready_[k] = now_;
        waiting_.push_back(k);
      }
      for (const size_t k : leaving_[at(position_)]) {
        pending_.push_back(k);
        pending_bytes_ += sends_[k].bytes;
      }
    }
    give_up();
    start.push_back(now_);
    return start;
  }

 private:
  // Starts the next copy, if it starts before `until`.
  bool start_next(double until) {
    double begin = kNever;
    for (const size_t k : waiting_) begin = std::min(begin, std::max(link_free_, ready_[k]));
    if (begin >= until) return false;
    size_t next = waiting_.size();
    for (size_t w = 0; w < waiting_.size(); ++w) {
      const bool is_ready = ready_[waiting_[w]] <= begin;
      if (!is_ready) continue;
      if (next == waiting_.size() || sends_[waiting_[w]].leave < sends_[waiting_[next]].leave) {
        next = w;
      }
    }
    Send& send = sends_[waiting_[next]];
    send.start_s = begin;
    send.listed = last_listed_ = std::max(send.made + 1, last_listed_);
    link_free_ = begin + send.copy_s;
    done_[waiting_[next]] = link_free_;
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(next));
    return true;
  }

  // Whether what is on its way out must give way for the next position.
  bool is_in_the_way() const {
    if (pending_.empty()) return false;
    return position_ > room_.turn || room_.bytes[at(position_)] + pending_bytes_ > room_.budget;
  }

  // Gives up what is copied, and waits where the next position needs more.
  void give_up() {
    give_up_done();
    while (is_in_the_way()) {
      const auto first = [&] {
        double done = kNever;
        for (const size_t k : pending_) done = std::min(done, done_[k]);
        return done;
      };
      while (first() == kNever) {
        const bool has_started = start_next(kNever);
        ensure(has_started, "what is on its way out was never made");
      }
      now_ = first();
      give_up_done();
    }
  }

  void give_up_done() {
    std::erase_if(pending_, [&](size_t k) {
      if (done_[k] > now_) return false;
      sends_[k].given_up = position_;
      pending_bytes_ -= sends_[k].bytes;
      return true;
    });
  }

  const SendingRoom& room_;
  std::vector<Send>& sends_;
  std::vector<double> done_;                         // Per send: when its copy ends,
  std::vector<double> ready_;                        // and when its bytes are made.
  std::vector<std::vector<size_t>> made_, leaving_;  // Per position.
  std::vector<size_t> waiting_;                      // Made; the copy has not started.
  std::vector<size_t> pending_;                      // Read for the last time, not given up.
  int64_t pending_bytes_ = 0;
  int position_ = 0;
  int last_listed_ = 0;
  double now_ = 0;
  double link_free_ = 0;
};

}  // namespace

std::vector<double> send_out(const SendingRoom& room, std::vector<Send>& sends) {
  return Sender(room, sends).run();
}

}  // namespace olm2
