// Vectors, quaternions and matrices: as much as the camera and the overlays need. Matrices are column by column.
"use strict";
const M = {
  sub: (a, b) => [a[0] - b[0], a[1] - b[1], a[2] - b[2]],
  add: (a, b) => [a[0] + b[0], a[1] + b[1], a[2] + b[2]],
  scale: (a, s) => [a[0] * s, a[1] * s, a[2] * s],
  dot: (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2],
  cross: (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]],
  norm: a => Math.hypot(a[0], a[1], a[2]),
  unit: a => M.scale(a, 1 / (M.norm(a) || 1)),
  mix: (a, b, t) => a + (b - a) * t,
  rotate(q, v) {
    const u = [q[1], q[2], q[3]], t = M.scale(M.cross(u, v), 2);
    return M.add(M.add(v, M.scale(t, q[0])), M.cross(u, t));
  },
  conjugate: q => [q[0], -q[1], -q[2], -q[3]],
  perspective(fov, aspect, near, far) {
    const f = 1 / Math.tan(fov / 2), d = 1 / (near - far);
    return [f / aspect, 0, 0, 0, 0, f, 0, 0, 0, 0, (near + far) * d, -1, 0, 0, 2 * near * far * d, 0];
  },
  look(eye, target, up) {
    const z = M.unit(M.sub(eye, target)), x = M.unit(M.cross(up, z)), y = M.cross(z, x);
    return [x[0], y[0], z[0], 0, x[1], y[1], z[1], 0, x[2], y[2], z[2], 0, -M.dot(x, eye), -M.dot(y, eye), -M.dot(z, eye), 1];
  },
  product(a, b) {
    const c = new Array(16).fill(0);
    for (let i = 0; i < 4; i++) for (let j = 0; j < 4; j++) for (let k = 0; k < 4; k++) c[4 * j + i] += a[4 * k + i] * b[4 * j + k];
    return c;
  },
  apply(m, v) {
    const w = [0, 1, 2, 3].map(i => m[i] * v[0] + m[4 + i] * v[1] + m[8 + i] * v[2] + m[12 + i]);
    return w;
  },
  // The convex hull of points, by their first two coordinates, in order around it (Andrew's monotone chain).
  hull(points) {
    const p = points.slice().sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const turn = (o, a, b) => (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0]);
    const half = list => {
      const h = [];
      for (const x of list) { while (h.length > 1 && turn(h[h.length - 2], h[h.length - 1], x) <= 0) h.pop(); h.push(x); }
      h.pop();
      return h;
    };
    return p.length < 3 ? p : half(p).concat(half(p.reverse()));
  },
};
