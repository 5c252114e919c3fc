/* svg_curves.h - charts of values over epochs, side by side in one SVG file. C99, nothing else needed. */
#ifndef SVG_CURVES_H
#define SVG_CURVES_H
#include <math.h>
#include <stdio.h>

enum { SVG_SERIES = 2 };
typedef struct svg_chart {
    const char *title, *y_label;
    const double
        *ticks; /* rising; the first and last are the ends of the axis. NULL with log_scale: chosen */
    int tick_count, log_scale;
    double guide; /* a dashed horizontal line; 0: none */
    const char *guide_name;
    const char *name[SVG_SERIES];
    const double *value[SVG_SERIES]; /* one entry per epoch */
    int legend_low;                  /* 1: legend at the lower right, 0: at the upper right */
} svg_chart;

enum { SVG_LEFT = 80, SVG_TOP = 84, SVG_WIDTH = 340, SVG_HEIGHT = 260, SVG_STEP = 460 };
static const char *const svg_style[SVG_SERIES] = {"stroke='#0072b2'", "stroke='#d55e00'"};
static const char *const svg_guide = "stroke='#777777' stroke-dasharray='5 4'";

/* Ticks of a logarithmic axis that spans all values. */
static void svg_log_ticks(svg_chart *c, int epochs)
{
    static const double tick[] = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10};
    const int end = (int)(sizeof tick / sizeof tick[0]) - 1;
    int first = end - 1, last = 1;
    for (int i = 0; i < SVG_SERIES * epochs; i++) {
        double value = c->value[i / epochs][i % epochs];
        while (first > 0 && tick[first] > value) {
            first--;
        }
        while (last < end && tick[last] < value) {
            last++;
        }
    }
    c->ticks = tick + first;
    c->tick_count = last - first + 1;
}

/* Where a value stands; what lies outside the axis also lies outside the frame, where curves are cut off. */
static double svg_y(const svg_chart *c, double value)
{
    double low = c->ticks[0], high = c->ticks[c->tick_count - 1];
    double part =
        c->log_scale ? log(fmax(value, 1e-9) / low) / log(high / low) : (value - low) / (high - low);
    return SVG_TOP + SVG_HEIGHT * (1 - part);
}

static void svg_axes(FILE *f, const svg_chart *c, double left, int epochs)
{
    const double bottom = SVG_TOP + SVG_HEIGHT, middle = SVG_TOP + SVG_HEIGHT / 2;
    for (int i = 0; i < c->tick_count; i++) {
        double y = svg_y(c, c->ticks[i]);
        fprintf(f, "<path d='M%g %.1fh%d' stroke='#dddddd'/>", left, y, SVG_WIDTH);
        fprintf(f, "<path d='M%g %.1fh-5' stroke='#333333'/>", left, y);
        fprintf(f, "<text x='%g' y='%.1f' text-anchor='end'>%g</text>\n", left - 9, y + 4, c->ticks[i]);
    }
    int step = epochs > 60 ? 20 : epochs > 30 ? 10 : epochs > 12 ? 5 : epochs > 5 ? 2 : 1;
    for (int e = 0; e <= epochs; e += step) {
        double x = left + (double)SVG_WIDTH * e / epochs;
        fprintf(f, "<path d='M%.1f %gv5' stroke='#333333'/>", x, bottom);
        fprintf(f, "<text x='%.1f' y='%g' text-anchor='middle'>%d</text>\n", x, bottom + 19, e);
    }
    fprintf(f, "<path d='M%g %dV%gh%d' fill='none' stroke='#333333'/>\n", left, SVG_TOP, bottom, SVG_WIDTH);
    fprintf(f, "<text x='%g' y='%d' font-weight='bold'>%s</text>\n", left, SVG_TOP - 14, c->title);
    fprintf(f, "<text x='%g' y='%g' text-anchor='middle'>epoch</text>\n", left + SVG_WIDTH / 2, bottom + 40);
    fprintf(f, "<text x='%g' y='%g' text-anchor='middle' transform='rotate(-90 %g %g)'>%s</text>\n",
            left - 46, middle, left - 46, middle, c->y_label);
}

static void svg_legend(FILE *f, double x, double y, const char *style, const char *text)
{
    fprintf(f, "<path stroke-width='2' %s d='M%g %gh26'/><text x='%g' y='%g'>%s</text>\n", style, x, y - 4,
            x + 33, y, text);
}

static void svg_curve(FILE *f, const double *value, const svg_chart *c, double left, int epochs,
                      const char *style)
{
    fprintf(f, "<path fill='none' stroke-width='2' stroke-linejoin='round' clip-path='url(#frame%g)' %s d='",
            left, style);
    for (int e = 0; e < epochs; e++) {
        double at = left + (double)SVG_WIDTH * (e + 1) / epochs;
        fprintf(f, "%c%.1f %.1f", e ? 'L' : 'M', at, svg_y(c, value[e]));
    }
    fprintf(f, "'/>\n");
}

static void svg_draw(FILE *f, const svg_chart *c, double left, int epochs)
{
    double x = left + (c->legend_low ? 130 : 200), y = c->legend_low ? SVG_TOP + 190 : SVG_TOP + 20;
    svg_axes(f, c, left, epochs);
    fprintf(f, "<clipPath id='frame%g'><rect x='%g' y='%d' width='%d' height='%d'/></clipPath>\n", left, left,
            SVG_TOP - 1, SVG_WIDTH + 1, SVG_HEIGHT + 1);
    if (c->guide > 0) {
        fprintf(f, "<path %s d='M%g %.1fh%d'/>\n", svg_guide, left, svg_y(c, c->guide), SVG_WIDTH);
    }
    for (int s = 0; s < SVG_SERIES; s++) {
        svg_curve(f, c->value[s], c, left, epochs, svg_style[s]);
    }
    fprintf(f, "<rect x='%g' y='%g' width='%g' height='%d' fill='white' fill-opacity='0.85'/>\n", x - 6,
            y - 16, left + SVG_WIDTH - x, 20 * (SVG_SERIES + (c->guide > 0)) + 6);
    for (int s = 0; s < SVG_SERIES; s++) {
        svg_legend(f, x, y + 20 * s, svg_style[s], c->name[s]);
    }
    if (c->guide > 0) {
        svg_legend(f, x, y + 20 * SVG_SERIES, svg_guide, c->guide_name);
    }
}

/* Fills in missing ticks. Returns 0 if the file cannot be written. */
static int svg_write(const char *path, const char *title, svg_chart *charts, int count, int epochs)
{
    const int width = SVG_STEP * count, height = SVG_TOP + SVG_HEIGHT + 66;
    FILE *f = fopen(path, "w");
    if (f == NULL) {
        return 0;
    }
    fprintf(f,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' viewBox='0 0 %d %d' "
            "font-family='Helvetica,Arial,sans-serif' font-size='13' fill='#222222'>\n"
            "<rect width='%d' height='%d' fill='white'/>\n"
            "<text x='%d' y='36' font-size='17' font-weight='bold'>%s</text>\n",
            width, height, width, height, width, height, SVG_LEFT, title);
    for (int i = 0; i < count; i++) {
        if (charts[i].ticks == NULL) {
            svg_log_ticks(&charts[i], epochs);
        }
        svg_draw(f, &charts[i], SVG_LEFT + SVG_STEP * i, epochs);
    }
    fprintf(f, "</svg>\n");
    int failed = ferror(f);
    return fclose(f) == 0 && !failed;
}
#endif
