#include "train/svg.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "train/page.h"

namespace olm2 {
namespace {

// A tenth of a pixel is enough.
std::string pixels(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  std::string number = text.data();
  if (number.ends_with(".0")) number.resize(number.size() - 2);
  return number == "-0" ? "0" : number;
}

std::string attribute(const char* name, double value) {
  return std::string(" ") + name + "=\"" + pixels(value) + "\"";
}

std::string style_of(std::string_view style) {
  return style.empty() ? "" : " class=\"" + std::string(style) + "\"";
}

}  // namespace

Svg::Svg(double width, double height, std::string_view label) {
  svg_ = "<div class=\"wide\"><svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " +
         pixels(width) + " " + pixels(height) + "\" role=\"img\" aria-label=\"" + escape(label) +
         "\">\n";
}

void Svg::shape(std::string_view element, std::string_view title) {
  const std::string name(element.substr(1, element.find(' ') - 1));
  svg_ += element;
  svg_ += title.empty() ? std::string("/>\n")
                        : "><title>" + escape(title) + "</title></" + name + ">\n";
}

void Svg::rect(double x, double y, double width, double height, std::string_view style,
               std::string_view title) {
  shape("<rect" + attribute("x", x) + attribute("y", y) + attribute("width", width) +
            attribute("height", height) + style_of(style),
        title);
}

void Svg::line(Point from, Point to, std::string_view style) {
  shape("<line" + attribute("x1", from.x) + attribute("y1", from.y) + attribute("x2", to.x) +
            attribute("y2", to.y) + style_of(style),
        {});
}

void Svg::text(Point at, std::string_view style, std::string_view text) {
  svg_ += "<text" + attribute("x", at.x) + attribute("y", at.y) + style_of(style) + ">" +
          escape(text) + "</text>\n";
}

void Svg::polyline(const std::vector<Point>& points, double width, std::string_view style,
                   std::string_view title) {
  std::string list;
  for (const Point& point : points) {
    list += (list.empty() ? "" : " ") + pixels(point.x) + "," + pixels(point.y);
  }
  shape("<polyline points=\"" + list + "\"" + attribute("stroke-width", width) + style_of(style),
        title);
}

void Svg::circle(Point center, double radius, std::string_view style, std::string_view title) {
  shape("<circle" + attribute("cx", center.x) + attribute("cy", center.y) + attribute("r", radius) +
            style_of(style),
        title);
}

void Svg::band(const std::vector<double>& xs, const std::vector<double>& lower,
               const std::vector<double>& upper, std::string_view style, std::string_view title) {
  if (upper.empty()) return;
  std::string path = "M" + pixels(xs[0]) + " " + pixels(upper[0]);
  for (size_t i = 0; i < upper.size(); ++i) {
    if (i > 0 && pixels(upper[i]) == pixels(upper[i - 1])) continue;
    if (i > 0) path += "H" + pixels(xs[i]) + "V" + pixels(upper[i]);
  }
  path += "H" + pixels(xs[upper.size()]) + "V" + pixels(lower.back());
  for (size_t i = lower.size(); i-- > 0;) {
    if (i > 0 && pixels(lower[i]) == pixels(lower[i - 1])) continue;
    path += "H" + pixels(xs[i]);
    if (i > 0) path += "V" + pixels(lower[i - 1]);
  }
  shape("<path d=\"" + path + "Z\"" + style_of(style), title);
}

std::string Svg::finish() {
  return svg_ + "</svg></div>\n";
}

std::vector<double> ticks(double largest, int count) {
  std::vector<double> values;
  if (!(largest > 0)) return {0};
  const double rough = largest / count;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (factor * power >= rough) step = factor * power;
  }
  for (int i = 0; i * step <= largest * (1 + 1e-9); ++i) values.push_back(i * step);
  return values;
}

}  // namespace olm2
