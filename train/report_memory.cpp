// The chart of bytes in use.  Time is cut into columns; each shows the moment in it at which most
// is in use, so that no peak is lost however short it is.
#include <algorithm>
#include <cmath>
#include <map>

#include "train/page.h"
#include "train/report_chart.h"
#include "train/svg.h"
#include "train/tensor_class.h"

namespace olm2 {
namespace {

constexpr size_t kColumns = 440;
constexpr size_t kHovers = 55;   // Stretches of columns with a list of tensors each.
constexpr size_t kListed = 8;    // Tensors in such a list.
constexpr size_t kNamed = 3;     // Tensors of the fullest moment.
constexpr size_t kClasses = 10;  // Drawn apart; the rest is one.
constexpr double kTop = 26;
constexpr double kPlot = 250;
constexpr double kStrip = 26;  // What is there all the time.
constexpr double kHeight = kTop + kPlot + kStrip + 34;

struct Moment {
  double time_s = 0;
  int64_t bytes = -1;
  std::vector<int64_t> by_class;
};

class MemoryChart {
 public:
  MemoryChart(const ProgramStory& story, Tier tier)
      : story_(story), tier_(tier), axis_{.seconds = story.simulation.seconds} {
    sort_buffers();
    choose_classes();
    columns_ = moments(kColumns);
    peak_ = std::ranges::max_element(columns_, {}, &Moment::bytes)->bytes;
    budget_ = story.problem->budget[index_of(tier)];
  }

  std::string draw() {
    Svg svg(960, kHeight, std::string(to_string(tier_)) + " memory over time");
    // A budget far above the plan would press it flat.
    shows_budget_ = budget_ > 0 && budget_ - always_ <= 3 * std::max<int64_t>(peak_ - always_, 1);
    top_bytes_ = std::max(peak_, shows_budget_ ? budget_ : 0) - always_;
    top_bytes_ += std::max<int64_t>(top_bytes_ / 10, 1);  // Room for words.
    draw_grid(svg);
    draw_bands(svg);
    draw_turn(svg);
    draw_budget(svg);
    draw_hovers(svg);
    return "<figure>" + svg.finish() + legend(entries()) + caption() + "</figure>\n";
  }

 private:
  std::string caption() const {
    const int64_t arena = story_.schedule->arena[index_of(tier_)];
    const Moment& fullest = *std::ranges::max_element(columns_, {}, &Moment::bytes);
    std::string text = "At most " + short_bytes(peak_) + " are in use at once, first at " +
                       short_seconds(fullest.time_s) + running_at(fullest.time_s) + ": " +
                       largest_at(fullest.time_s, kNamed, ", ");
    if (arena > peak_) {
      text += "; gaps between the tensors take " + short_bytes(arena - peak_) + " more";
    }

    return "<figcaption>" + escape(text) + ".</figcaption>\n";
  }

  std::string running_at(double time_s) const {
    for (size_t i = 0; i < story_.schedule->instructions.size(); ++i) {
      const Instruction& instruction = story_.schedule->instructions[i];
      const bool runs =
          story_.simulation.start_s[i] <= time_s && time_s < story_.simulation.end_s[i];
      if (instruction.kind != Instruction::Kind::compute || !runs) continue;
      return " while " + story_.graph->node(instruction.node).name + " runs";
    }
    return "";
  }

  // The largest tensors that are not there all the time, as text.
  std::string largest_at(double time_s, size_t count, const std::string& separator) const {
    std::map<std::string, int64_t> bytes;  // Pieces of a tensor are one.
    for (const BufferSpan& span : passing_) {
      if (span.begin_s <= time_s && time_s < span.end_s) {
        bytes[buffer(span).name] += buffer(span).bytes;
      }
    }
    std::vector<std::pair<int64_t, std::string>> alive;
    for (const auto& [name, size] : bytes) alive.emplace_back(-size, name);
    std::ranges::sort(alive);
    std::string text;
    for (size_t k = 0; k < std::min(count, alive.size()); ++k) {
      text += (k == 0 ? "" : separator) + alive[k].second + " " + short_bytes(-alive[k].first);
    }
    if (alive.size() > count) {
      text += separator + "and " + std::to_string(alive.size() - count) + " more";
    }
    return text;
  }

  const Buffer& buffer(const BufferSpan& span) const {
    return story_.schedule->buffers[static_cast<size_t>(span.buffer.index)];
  }

  bool is_always_there(const BufferSpan& span) const {
    return span.begin_s == 0 && span.end_s == axis_.seconds;
  }

  void sort_buffers() {
    for (const BufferSpan& span : story_.spans) {
      if (buffer(span).tier != tier_) continue;
      if (is_always_there(span)) {
        always_ += buffer(span).bytes;
        always_by_class_[class_of_buffer(*story_.graph, buffer(span))] += buffer(span).bytes;
      } else {
        passing_.push_back(span);
      }
    }
    std::ranges::stable_sort(passing_, {}, &BufferSpan::begin_s);
  }

  // The classes with the most bytes times seconds get a colour, the same in every tier; they lie
  // on each other in the order of their first use.
  void choose_classes() {
    std::map<std::string, double> weight;
    std::vector<std::string> in_order;
    std::vector<BufferSpan> all = story_.spans;
    std::ranges::stable_sort(all, {}, &BufferSpan::begin_s);
    for (const BufferSpan& span : all) {
      if (is_always_there(span)) continue;
      const std::string name = class_of_buffer(*story_.graph, buffer(span));
      if (!weight.contains(name)) in_order.push_back(name);
      weight[name] += static_cast<double>(buffer(span).bytes) * (span.end_s - span.begin_s);
    }
    std::vector<std::string> heaviest = in_order;
    std::ranges::stable_sort(heaviest, std::ranges::greater{},
                             [&](const std::string& name) { return weight[name]; });
    if (heaviest.size() > kClasses) heaviest.resize(kClasses - 1);
    for (const std::string& name : in_order) {
      if (std::ranges::find(heaviest, name) != heaviest.end()) classes_.push_back(name);
    }
    if (in_order.size() > classes_.size()) classes_.push_back("everything else");
    for (const BufferSpan& span : passing_) {
      const std::string name = class_of_buffer(*story_.graph, buffer(span));
      const auto found = std::ranges::find(classes_, name);
      const auto index = static_cast<size_t>(found - classes_.begin());
      class_of_.push_back(std::min(index, classes_.size() - 1));
    }
  }

  // The fullest moment of each of `count` equal stretches of time.
  std::vector<Moment> moments(size_t count) const {
    struct Change {
      double time_s = 0;
      size_t of_class = 0;
      int64_t bytes = 0;
    };
    std::vector<Change> changes;
    for (size_t k = 0; k < passing_.size(); ++k) {
      changes.push_back({passing_[k].begin_s, class_of_[k], buffer(passing_[k]).bytes});
      changes.push_back({passing_[k].end_s, class_of_[k], -buffer(passing_[k]).bytes});
    }
    std::ranges::stable_sort(changes, {}, &Change::time_s);
    std::vector<Moment> result(count);
    Moment now{.time_s = 0, .bytes = always_, .by_class = std::vector<int64_t>(classes_.size(), 0)};
    const auto show_until = [&](double end_s) {
      const double per_second = static_cast<double>(count) / axis_.seconds;
      const auto first = std::min(count - 1, static_cast<size_t>(now.time_s * per_second));
      const auto last = std::min(count - 1, static_cast<size_t>(end_s * per_second));
      for (size_t c = first; c <= last; ++c) {
        if (now.bytes > result[c].bytes) result[c] = now;
      }
    };
    for (size_t k = 0; k < changes.size();) {
      const double time_s = changes[k].time_s;
      if (time_s > now.time_s) show_until(time_s);
      now.time_s = time_s;
      for (; k < changes.size() && changes[k].time_s == time_s; ++k) {
        now.by_class[changes[k].of_class] += changes[k].bytes;
        now.bytes += changes[k].bytes;
      }
    }
    show_until(axis_.seconds);
    return result;
  }

  double y(double bytes_above_always) const {
    return kTop + kPlot * (1 - bytes_above_always / static_cast<double>(top_bytes_));
  }

  void draw_grid(Svg& svg) const {
    // Round numbers in the unit of the largest one.
    double unit = 1;
    const auto most = static_cast<double>(always_ + top_bytes_);
    while (most / unit >= 1000) unit *= 1024;
    const double bottom = static_cast<double>(always_) / unit;
    const double span = static_cast<double>(top_bytes_) / unit;
    const std::vector<double> steps = ticks(span, 5);
    const double step = steps.size() > 1 ? steps[1] : span;
    for (double value = std::ceil(bottom / step) * step; value <= bottom + span; value += step) {
      const double height = y((value - bottom) * unit);
      svg.line({axis_.left, height}, {axis_.right(), height}, "grid");
      svg.text({axis_.left - 6, height + 4}, "small end",
               short_bytes(static_cast<int64_t>(value * unit)));
    }
    for (const double time : ticks(axis_.seconds, 8)) {
      svg.line({axis_.x(time), kTop + kPlot + kStrip}, {axis_.x(time), kTop + kPlot + kStrip + 5},
               "axis");
      svg.text({axis_.x(time), kTop + kPlot + kStrip + 18}, "small middle", short_seconds(time));
    }
    svg.rect(axis_.left, kTop + kPlot, axis_.width, kStrip, always_ == 0 ? "lane" : "c0",
             always_title());
    const std::string what = always_ == 0 ? "nothing stays here all the time"
                                          : short_bytes(always_) + " stay here all the time";
    svg.text({axis_.left + 8, kTop + kPlot + 17}, "", what);
    svg.line({axis_.left, kTop + kPlot}, {axis_.right(), kTop + kPlot}, "axis");
    svg.line({axis_.left, kTop + kPlot + kStrip}, {axis_.right(), kTop + kPlot + kStrip}, "axis");
  }

  std::string always_title() const {
    std::string text = "During the whole step:";
    for (const auto& [name, bytes] : always_by_class_)
      text += "\n" + name + " " + short_bytes(bytes);
    return text;
  }

  void draw_bands(Svg& svg) const {
    std::vector<double> xs;
    for (size_t c = 0; c <= kColumns; ++c) {
      xs.push_back(axis_.left +
                   axis_.width * static_cast<double>(c) / static_cast<double>(kColumns));
    }
    std::vector<double> sum(kColumns, 0);
    std::vector<double> lower(kColumns, y(0));
    for (size_t k = 0; k < classes_.size(); ++k) {
      std::vector<double> upper;
      int64_t most = 0;
      for (size_t c = 0; c < kColumns; ++c) {
        const int64_t bytes = columns_[c].by_class.empty() ? 0 : columns_[c].by_class[k];
        most = std::max(most, bytes);
        sum[c] += static_cast<double>(bytes);
        upper.push_back(y(sum[c]));
      }
      if (most > 0)
        svg.band(xs, lower, upper, "c" + std::to_string(color(k)),
                 classes_[k] + ": up to " + short_bytes(most));
      lower = std::move(upper);
    }
  }

  // Where the step turns back.
  void draw_turn(Svg& svg) const {
    const std::vector<Work> work = work_of(story_);
    const auto first = std::ranges::find(work, Work::backward);
    if (first == work.end()) return;
    const double time_s = story_.simulation.start_s[static_cast<size_t>(first - work.begin())];
    svg.line({axis_.x(time_s), kTop}, {axis_.x(time_s), kTop + kPlot}, "axis");
    svg.text({axis_.x(time_s) - 6, kTop + 12}, "small end", "forward pass");
    svg.text({axis_.x(time_s) + 6, kTop + 12}, "small", "backward pass");
  }

  void draw_budget(Svg& svg) const {
    const std::string text = "budget " + short_bytes(budget_);
    if (budget_ == 0) return;
    if (!shows_budget_) {
      svg.text({axis_.right(), kTop - 10}, "budget-text end", text + " (above this drawing)");
      return;
    }
    const double height = y(static_cast<double>(budget_ - always_));
    svg.line({axis_.left, height}, {axis_.right(), height}, "budget");
    svg.text({axis_.right(), height - 5}, "budget-text end", text);
  }

  // Invisible stripes that say what is in memory there.
  void draw_hovers(Svg& svg) const {
    const std::vector<Moment> stretches = moments(kHovers);
    const double width = axis_.width / static_cast<double>(kHovers);
    for (size_t h = 0; h < kHovers; ++h) {
      const double time_s = stretches[h].time_s;
      const std::string title = "at " + short_seconds(time_s) + ": " +
                                short_bytes(stretches[h].bytes) + "\n" +
                                largest_at(time_s, kListed, "\n");
      svg.rect(axis_.left + width * static_cast<double>(h), kTop, width, kPlot, "hover", title);
    }
  }

  // 0 is what is always there, the last one is the rest.
  int color(size_t k) const {
    const bool is_rest = classes_[k] == "everything else";
    return is_rest ? 1 : static_cast<int>(2 + k);
  }

  std::vector<std::pair<int, std::string>> entries() const {
    std::vector<std::pair<int, std::string>> result;
    for (size_t k = classes_.size(); k-- > 0;) {
      const bool is_here = std::ranges::find(class_of_, k) != class_of_.end();
      if (is_here) result.emplace_back(color(k), classes_[k]);
    }
    std::string always;
    for (const auto& [name, bytes] : always_by_class_) {
      always += (always.empty() ? "" : ", ") + name + " " + short_bytes(bytes);
    }
    if (!always.empty()) result.emplace_back(0, "all the time: " + always);
    return result;
  }

  const ProgramStory& story_;
  Tier tier_;
  TimeAxis axis_;
  std::vector<BufferSpan> passing_;  // Not there all the time.
  std::vector<size_t> class_of_;     // Per passing buffer.
  std::vector<std::string> classes_;
  std::map<std::string, int64_t> always_by_class_;
  int64_t always_ = 0;
  std::vector<Moment> columns_;
  int64_t peak_ = 0;
  int64_t budget_ = 0;
  int64_t top_bytes_ = 1;
  bool shows_budget_ = false;
};

}  // namespace

ProgramStory story_of(const Problem& problem, const Schedule& schedule) {
  ProgramStory story{.graph = problem.graph,
                     .problem = &problem,
                     .schedule = &schedule,
                     .simulation = simulate(problem, schedule),
                     .spans = {}};
  story.spans = buffer_spans(schedule, story.simulation.start_s, story.simulation.end_s,
                             story.simulation.seconds);
  return story;
}

std::string memory_chart(const ProgramStory& story, Tier tier) {
  return MemoryChart(story, tier).draw();
}

}  // namespace olm2
