// A drawing as SVG inside a page, in units of CSS pixels on a wide screen.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace olm2 {

struct Point {
  double x = 0;
  double y = 0;
};

class Svg {
 public:
  // `label` says in words what is drawn.
  Svg(double width, double height, std::string_view label);

  // `style` names classes of the page.  With a title, the shape says it when pointed at.
  void rect(double x, double y, double width, double height, std::string_view style,
            std::string_view title = {});
  void line(Point from, Point to, std::string_view style);
  void text(Point at, std::string_view style, std::string_view text);
  void polyline(const std::vector<Point>& points, double width, std::string_view style,
                std::string_view title = {});
  void circle(Point center, double radius, std::string_view style, std::string_view title);
  // The area between two step functions over the same x: constant from xs[i] to xs[i + 1].
  void band(const std::vector<double>& xs, const std::vector<double>& lower,
            const std::vector<double>& upper, std::string_view style, std::string_view title);

  std::string finish();

 private:
  void shape(std::string_view element, std::string_view title);
  std::string svg_;
};

// Round numbers from 0 to `largest`, about `count` of them.
std::vector<double> ticks(double largest, int count);

}  // namespace olm2
