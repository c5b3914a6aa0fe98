// A strip chart: the reward of the last seconds.

const SECONDS = 10;

export class Chart {
  constructor(canvas, output) {
    this.canvas = canvas;
    this.output = output;
    this.clear();
  }

  clear() {
    this.points = []; // [time, value]
    this.output.textContent = "–";
  }

  add(time, value) {
    this.points.push([time, value]);
    while (this.points[0][0] < time - SECONDS) this.points.shift();
  }

  draw() {
    const { canvas, points } = this, draw = canvas.getContext("2d"), ratio = devicePixelRatio;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
    if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
    draw.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw.clearRect(0, 0, width, height);
    if (!points.length) return;
    const style = getComputedStyle(canvas), values = points.map((point) => point[1]);
    let low = Math.min(0, ...values), high = Math.max(0, ...values);
    if (high - low < 1e-9) high = low + 1;
    const now = points[points.length - 1][0];
    const x = (time) => width * (1 - (now - time) / SECONDS);
    const y = (value) => height - 3 - (height - 6) * (value - low) / (high - low);
    draw.strokeStyle = style.getPropertyValue("--line");
    draw.beginPath();
    draw.moveTo(0, y(0));
    draw.lineTo(width, y(0));
    draw.stroke();
    draw.strokeStyle = style.getPropertyValue("--accent");
    draw.lineWidth = 1.75;
    draw.lineJoin = "round";
    draw.beginPath();
    for (const [time, value] of points) draw.lineTo(x(time), y(value));
    draw.stroke();
    const recent = values.slice(-25), mean = recent.reduce((a, b) => a + b, 0) / recent.length;
    this.output.textContent = Math.abs(mean) < 5e-4 ? "0" : mean.toPrecision(3);
  }
}
