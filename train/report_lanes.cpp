// The chart of lanes.  What is narrower than a pixel is drawn together with its neighbours of the
// same kind, so that a plan of ten thousand instructions is as quick to look at as one of ten.
#include <algorithm>

#include "train/page.h"
#include "train/report_chart.h"
#include "train/svg.h"

namespace olm2 {
namespace {

constexpr double kTop = 8;
constexpr double kRow = 30;
constexpr double kBar = 22;
constexpr double kNarrow = 1.2;  // Pixels.
constexpr int kOut = 7;
constexpr int kBack = 8;
constexpr std::string_view kStallStyle = "stall";

int color_of(Work work) {
  constexpr std::array<int, 4> kColor = {3, 4, 5, 6};
  return kColor.at(static_cast<size_t>(work));
}

// Something on a lane, or several like it.
struct Bar {
  double begin_s = 0;
  double end_s = 0;
  std::string style = {};
  std::string title = {};
  int count = 1;
};

class LaneChart {
 public:
  explicit LaneChart(const ProgramStory& story)
      : story_(story), work_(work_of(story)), axis_{.seconds = story.simulation.seconds} {
    for (size_t l = 0; l < kLaneCount; ++l) {
      if (l == 0 || story.simulation.busy_s[l] > 0) lanes_.push_back(static_cast<Lane>(l));
    }
  }

  std::string draw() const {
    const double height = kTop + kRow * static_cast<double>(lanes_.size()) + 30;
    Svg svg(960, height, "what each lane does over time");
    draw_time(svg);
    for (size_t row = 0; row < lanes_.size(); ++row) {
      const double y = kTop + kRow * static_cast<double>(row);
      svg.rect(axis_.left, y, axis_.width, kBar, "lane");
      svg.text({axis_.left - 6, y + 15}, "small end", label(lanes_[row]));
      for (const Bar& bar : merged(bars_of(lanes_[row]))) {
        const double x = axis_.x(bar.begin_s);
        const double width = std::max(0.3, axis_.x(bar.end_s) - x);
        svg.rect(x, y, width, kBar, bar.style, title_of(bar));
      }
    }
    return "<figure>" + svg.finish() + entries() + "</figure>\n";
  }

 private:
  void draw_time(Svg& svg) const {
    const double bottom = kTop + kRow * static_cast<double>(lanes_.size());
    for (const double time : ticks(axis_.seconds, 8)) {
      svg.line({axis_.x(time), kTop}, {axis_.x(time), bottom}, "grid");
      svg.text({axis_.x(time), bottom + 12}, "small middle", short_seconds(time));
    }
  }

  static std::string label(Lane lane) {
    switch (lane) {
      case Lane::compute:
        return "compute";
      case Lane::device_to_host:
        return "to host";
      case Lane::host_to_device:
        return "from host";
      case Lane::host_to_disk:
        return "to disk";
      case Lane::disk_to_host:
        return "from disk";
    }
    return "";
  }

  static bool is_outward(Lane lane) {
    return lane == Lane::device_to_host || lane == Lane::host_to_disk;
  }

  std::vector<Bar> bars_of(Lane lane) const {
    std::vector<Bar> bars;
    const Simulation& simulation = story_.simulation;
    for (size_t i = 0; i < story_.schedule->instructions.size(); ++i) {
      const Instruction& instruction = story_.schedule->instructions[i];
      if (instruction.lane != lane) continue;
      Bar bar{.begin_s = simulation.start_s[i], .end_s = simulation.end_s[i]};
      if (lane == Lane::compute) {
        bar.style = "c" + std::to_string(color_of(work_[i]));
        bar.title = story_.graph->node(instruction.node).name;
      } else {
        bar.style = "c" + std::to_string(is_outward(lane) ? kOut : kBack);
        bar.title = story_.graph->value(instruction.reads.at(0).value).name + ", " +
                    short_bytes(instruction.reads.at(0).pieces.at(0).range.bytes());
      }
      bars.push_back(std::move(bar));
    }
    if (lane == Lane::compute) add_stalls(bars);
    return bars;
  }

  void add_stalls(std::vector<Bar>& bars) const {
    for (const Stall& stall : story_.simulation.stalls) {
      if (stall.lane != Lane::compute) continue;
      const Instruction& blocker =
          story_.schedule->instructions[static_cast<size_t>(stall.blocker)];
      std::string what = "waits for ";
      what += blocker.kind == Instruction::Kind::copy
                  ? "the copy of " + story_.graph->value(blocker.reads.at(0).value).name
                  : story_.graph->node(blocker.node).name;
      bars.push_back({.begin_s = stall.begin_s,
                      .end_s = stall.end_s,
                      .style = std::string(kStallStyle),
                      .title = std::move(what)});
    }
    std::ranges::stable_sort(bars, {}, &Bar::begin_s);
  }

  std::vector<Bar> merged(const std::vector<Bar>& bars) const {
    std::vector<Bar> result;
    const auto width = [&](const Bar& bar) { return axis_.x(bar.end_s) - axis_.x(bar.begin_s); };
    for (const Bar& bar : bars) {
      const bool joins = !result.empty() && result.back().style == bar.style &&
                         axis_.x(bar.begin_s) - axis_.x(result.back().end_s) < kNarrow / 3 &&
                         (width(bar) < kNarrow || width(result.back()) < kNarrow);
      if (joins) {
        result.back().end_s = bar.end_s;
        result.back().count += 1;
      } else {
        result.push_back(bar);
      }
    }
    return result;
  }

  static std::string title_of(const Bar& bar) {
    std::string text = bar.title;
    if (bar.count > 1) text += " and " + std::to_string(bar.count - 1) + " more";
    return text + "\n" + short_seconds(bar.begin_s) + " to " + short_seconds(bar.end_s) + ", " +
           short_seconds(bar.end_s - bar.begin_s);
  }

  std::string entries() const {
    std::vector<std::pair<int, std::string>> list;
    constexpr std::array<const char*, 4> kNames = {"forward pass", "computed again",
                                                   "backward pass", "optimizer"};
    for (size_t w = 0; w < kNames.size(); ++w) {
      for (size_t i = 0; i < work_.size(); ++i) {
        const bool is_compute = story_.schedule->instructions[i].kind == Instruction::Kind::compute;
        if (!is_compute || work_[i] != static_cast<Work>(w)) continue;
        list.emplace_back(color_of(static_cast<Work>(w)), kNames[w]);
        break;
      }
    }
    if (lanes_.size() > 1) {
      list.emplace_back(kOut, "copy out");
      list.emplace_back(kBack, "copy back");
    }
    std::string html = legend(list);
    const bool stalls = std::ranges::any_of(
        story_.simulation.stalls, [](const Stall& stall) { return stall.lane == Lane::compute; });
    if (!stalls) return html;
    const size_t end = html.rfind("</ul>");
    return html.insert(end, "<li><i style=\"background:var(--stall)\"></i>compute waits</li>");
  }

  const ProgramStory& story_;
  std::vector<Work> work_;
  TimeAxis axis_;
  std::vector<Lane> lanes_;
};

}  // namespace

std::vector<Work> work_of(const ProgramStory& story) {
  std::vector<Work> work;
  std::vector<bool> has_run(story.graph->nodes().size(), false);
  for (const Instruction& instruction : story.schedule->instructions) {
    work.push_back(Work::forward);
    if (instruction.kind != Instruction::Kind::compute) continue;
    const Phase phase = story.graph->node(instruction.node).phase;
    if (phase == Phase::backward) work.back() = Work::backward;
    if (phase == Phase::update) work.back() = Work::update;
    const auto node = static_cast<size_t>(instruction.node.index);
    if (has_run[node]) work.back() = Work::again;
    has_run[node] = true;
  }
  return work;
}

std::string lane_chart(const ProgramStory& story) {
  return LaneChart(story).draw();
}

}  // namespace olm2
