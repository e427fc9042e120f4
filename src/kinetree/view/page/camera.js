// The camera: it turns about a target, sees all of a ball, and follows what moves.
"use strict";
const FIELD_OF_VIEW = Math.PI / 4;

class Camera {
  // `canvas` says how large the picture is.
  constructor(canvas, framing) {
    const flat = framing.half[2] < .25 * Math.max(framing.half[0], framing.half[1]); // many states on a floor are seen from above
    this.canvas = canvas; this.framing = framing; this.yaw = -0.85; this.pitch = flat ? .6 : .33;
    this.frame(framing.centre);
  }
  // See all of the box: as far back as each of its corners asks for.
  frame(centre) {
    const { half } = this.framing, { back, right, up } = this.axes(), tall = Math.tan(FIELD_OF_VIEW / 2);
    const wide = tall * Math.max(.2, this.aspect());
    let d = 0;
    for (const sx of [-1, 1]) for (const sy of [-1, 1]) for (const sz of [-1, 1]) {
      const c = [sx * half[0], sy * half[1], sz * half[2]];
      d = Math.max(d, M.dot(c, back) + 1.12 * Math.max(Math.abs(M.dot(c, right)) / wide, Math.abs(M.dot(c, up)) / tall));
    }
    this.target = centre.slice();
    this.distance = Math.max(d, 1e-6);
  }
  aspect() { return this.canvas.clientWidth / Math.max(1, this.canvas.clientHeight); }
  // Length that a pixel shows, for each unit of depth.
  pixel() { return 2 * Math.tan(FIELD_OF_VIEW / 2) / Math.max(1, this.canvas.clientHeight); }
  axes() {
    const [cy, sy, cp, sp] = [Math.cos(this.yaw), Math.sin(this.yaw), Math.cos(this.pitch), Math.sin(this.pitch)];
    return { back: [cy * cp, sy * cp, sp], right: [-sy, cy, 0], up: [-cy * sp, -sy * sp, cp] };
  }
  view() {
    const { back } = this.axes(), d = this.distance, far = 60 * Math.max(d, this.framing.radius);
    const eye = M.add(this.target, M.scale(back, d)), projection = M.perspective(FIELD_OF_VIEW, this.aspect(), Math.min(.02 * d, this.framing.radius), far);
    return { view: M.product(projection, M.look(eye, this.target, [0, 0, 1])), eye, target: this.target };
  }
  turn(dx, dy) { this.yaw -= dx * .008; this.pitch = Math.max(-1.5, Math.min(1.55, this.pitch + dy * .008)); }
  pan(dx, dy) {
    const { right, up } = this.axes(), s = this.distance * this.pixel();
    this.target = M.add(this.target, M.add(M.scale(right, -dx * s), M.scale(up, dy * s)));
  }
  zoom(factor) { this.distance = Math.max(1e-3 * this.framing.radius, Math.min(200 * this.framing.radius, this.distance * factor)); }
  // The point that a pixel shows, at the depth of another point.
  at(x, y, point) {
    const { back, right, up } = this.axes(), eye = M.add(this.target, M.scale(back, this.distance));
    const depth = M.dot(M.sub(eye, point), back), s = this.pixel();
    const across = x - this.canvas.clientWidth / 2, down = y - this.canvas.clientHeight / 2;
    return M.add(eye, M.scale(M.add(M.sub(M.scale(right, across * s), M.scale(up, down * s)), M.scale(back, -1)), depth));
  }
}
