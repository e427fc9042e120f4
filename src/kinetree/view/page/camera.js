// The camera: it turns about a target, sees all of a ball, and follows what moves.
"use strict";
const FIELD_OF_VIEW = Math.PI / 4;
const PANEL = 274; // pixels on the right that the panel covers

class Camera {
  constructor(framing) {
    const flat = framing.half[2] < .25 * Math.max(framing.half[0], framing.half[1]); // many states on a floor are seen from above
    this.framing = framing; this.yaw = -0.85; this.pitch = flat ? .6 : .33;
    this.frame(framing.centre);
  }
  // See all of the box: as far back as each of its corners asks for.
  frame(centre) {
    const { half } = this.framing, { back, right, up } = this.axes(), tall = Math.tan(FIELD_OF_VIEW / 2);
    const wide = tall * Math.max(.2, (innerWidth - this.open()) / innerHeight);
    let d = 0;
    for (const sx of [-1, 1]) for (const sy of [-1, 1]) for (const sz of [-1, 1]) {
      const c = [sx * half[0], sy * half[1], sz * half[2]];
      d = Math.max(d, M.dot(c, back) + 1.12 * Math.max(Math.abs(M.dot(c, right)) / wide, Math.abs(M.dot(c, up)) / tall));
    }
    this.target = centre.slice();
    this.distance = Math.max(d, 1e-6);
  }
  open() { return innerWidth > 620 ? PANEL : 0; }
  axes() {
    const [cy, sy, cp, sp] = [Math.cos(this.yaw), Math.sin(this.yaw), Math.cos(this.pitch), Math.sin(this.pitch)];
    return { back: [cy * cp, sy * cp, sp], right: [-sy, cy, 0], up: [-cy * sp, -sy * sp, cp] };
  }
  view() {
    const { back } = this.axes(), d = this.distance, far = 60 * Math.max(d, this.framing.radius);
    const eye = M.add(this.target, M.scale(back, d)), shift = this.open() / innerWidth;
    const projection = M.perspective(FIELD_OF_VIEW, innerWidth / innerHeight, Math.min(.02 * d, this.framing.radius), far, shift);
    return { view: M.product(projection, M.look(eye, this.target, [0, 0, 1])), eye, target: this.target };
  }
  turn(dx, dy) { this.yaw -= dx * .008; this.pitch = Math.max(-1.5, Math.min(1.55, this.pitch + dy * .008)); }
  pan(dx, dy) {
    const { right, up } = this.axes(), s = 2 * this.distance * Math.tan(FIELD_OF_VIEW / 2) / innerHeight;
    this.target = M.add(this.target, M.add(M.scale(right, -dx * s), M.scale(up, dy * s)));
  }
  zoom(factor) { this.distance = Math.max(1e-3 * this.framing.radius, Math.min(200 * this.framing.radius, this.distance * factor)); }
  // The point that a pixel shows, at the depth of another point.
  at(x, y, point) {
    const { back, right, up } = this.axes(), eye = M.add(this.target, M.scale(back, this.distance));
    const depth = M.dot(M.sub(eye, point), back), s = 2 * Math.tan(FIELD_OF_VIEW / 2) / innerHeight;
    const across = x - (innerWidth - this.open()) / 2, down = y - innerHeight / 2;
    return M.add(eye, M.scale(M.add(M.sub(M.scale(right, across * s), M.scale(up, down * s)), M.scale(back, -1)), depth));
  }
}
