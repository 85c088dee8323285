# SPDX-License-Identifier: Apache-2.0
#
# Line plots beside one another as SVG, for the documents. A panel: {title, x, unit, most, series: [{name, dashed, points:
# [[x, y], ...]}]}; x is logarithmic with a mark at each value that a point has, y begins at 0 and ends at `most`.

def plot_number: . * 100 | round / 100 | tostring;
# The next number up of which quarters are short.
def plot_most: . as $value | pow(10; log10 | floor) as $unit
    | first((1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10) * $unit | select(. >= $value));
def plot_mark: if . < 1 then "1/\(1 / . | round)" else round | tostring end;
def plot_escape: gsub("&"; "&amp;") | gsub("<"; "&lt;");
def plot_colour: ["#0969da", "#cf222e", "#1a7f37", "#8250df", "#bc4c00", "#57606a"][. % 6];

# The panel, its left upper corner at ($left, $top); $w and $h are the field's.
def plot_panel($left; $top; $w; $h):
    . as $panel
    | ([.series[].points[][0]] | unique) as $xs
    | ($xs[0] | log) as $low | (($xs[-1] | log) - $low | if . == 0 then 1 else . end) as $span
    | def px: $left + ((log - $low) / $span * $w);
      def py: $top + $h - ([. / $panel.most, 1] | min) * $h;
      "<text class=\"h\" x=\"\($left)\" y=\"\($top - 12)\">\($panel.title | plot_escape)</text>",
      (range(5) as $i | ($panel.most * $i / 4) as $y
       | "<path class=\"g\" d=\"M\($left) \($y | py | plot_number)h\($w)\"/><text text-anchor=\"end\" x=\"\($left - 6)\" y=\"\(($y | py) + 4 | plot_number)\">\($y | plot_number)\($panel.unit)</text>"),
      ($xs[] | "<text text-anchor=\"middle\" x=\"\(px | plot_number)\" y=\"\($top + $h + 17)\">\(plot_mark)</text>"),
      "<text text-anchor=\"middle\" x=\"\($left + $w / 2)\" y=\"\($top + $h + 35)\">\($panel.x | plot_escape)</text>",
      ($panel.series | to_entries[] | .key as $i | .value as $series | ($i | plot_colour) as $colour
       | "<polyline fill=\"none\" stroke=\"\($colour)\" stroke-width=\"2\"\(if $series.dashed then " stroke-dasharray=\"5 4\"" else "" end) points=\"\([$series.points | sort[] | "\(.[0] | px | plot_number),\(.[1] | py | plot_number)"] | join(" "))\"/>",
         (if $series.dashed then empty else $series.points[] | "<circle fill=\"\($colour)\" cx=\"\(.[0] | px | plot_number)\" cy=\"\(.[1] | py | plot_number)\" r=\"3\"/>" end),
         "<text x=\"\($left)\" y=\"\($top + $h + 56 + 17 * $i)\" style=\"fill:\($colour)\">\(if $series.dashed then "- -" else "-●-" end) \($series.name | plot_escape)</text>");

# Panels, $columns beside one another.
def plot_svg($columns; panels):
    [panels] as $panels
    | 300 as $w | 170 as $h | 380 as $wide | ($h + 75 + 17 * ([$panels[].series | length] | max) + 30) as $high
    | ([$columns, ($panels | length)] | min) as $across | (($panels | length) + $across - 1) / $across | floor as $down
    | ($across * $wide) as $width | ($down * $high + 10) as $height
    | "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 \($width) \($height)\" font-family=\"sans-serif\" font-size=\"12\">",
      "<!-- SPDX-License-Identifier: Apache-2.0 -->",
      "<style>text{fill:#1f2328}.g{stroke:#d0d7de}.h{font-weight:bold}</style>",
      "<rect width=\"\($width)\" height=\"\($height)\" fill=\"#fff\"/>",
      ($panels | to_entries[] | .key as $i
       | .value | plot_panel(55 + ($i % $across) * $wide; 30 + ($i / $across | floor) * $high; $w; $h)),
      "</svg>";
