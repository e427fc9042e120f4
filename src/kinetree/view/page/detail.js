// Level of detail: what is small on the screen is drawn with few corners.
"use strict";
const THIN = 1 / 8; // of the robot's radius: four pixels where the robot has 64
const Detail = {
  // Corners, normals and triangles of parts as they came, and which part each corner is of.
  surfaces(parts, geometry) {
    const points = [], normals = [], index = [], owner = [];
    parts.forEach((part, k) => {
      const given = new Float32Array(geometry, 4 * part.offset, 6 * part.corners), faces = new Uint32Array(geometry, 4 * (part.offset + 6 * part.corners), 3 * part.triangles);
      for (const corner of faces) index.push(corner + owner.length);
      for (let c = 0; c < part.corners; c++) { points.push(...given.subarray(6 * c, 6 * c + 3)); normals.push(...given.subarray(6 * c + 3, 6 * c + 6)); owner.push(k); }
    });
    return { points, normals, index, owner };
  },
  // A box around each part: eight corners, each with the normal of at most one face, which starts there.
  // A triangle takes its colour from its last corner.
  FACES: [[0, 4, 6, 2, 0, -1], [3, 2, 6, 7, 1, 1], [4, 0, 1, 5, 1, -1], [7, 5, 1, 3, 0, 1], [5, 7, 6, 4, 2, 1], [2, 3, 1, 0, 2, -1]].map(f => ({ ring: f.slice(0, 4), axis: f[4], sign: f[5] })),
  boxes(parts) {
    const points = [], normals = [], index = [], owner = [];
    parts.forEach((part, k) => {
      const first = owner.length, { centre, axes } = part.box;
      for (let c = 0; c < 8; c++) {
        points.push(...axes.reduce((p, a, i) => M.add(p, M.scale(a, c >> i & 1 ? 1 : -1)), centre));
        normals.push([0, 0, 0]); owner.push(k);
      }
      const right = M.dot(M.cross(axes[0], axes[1]), axes[2]) >= 0; // else the faces are seen from inside
      for (const { ring: [a, b, c, d], axis, sign } of Detail.FACES) {
        normals[first + a] = M.scale(M.unit(axes[axis]), sign);
        for (const [p, q] of [[b, c], [c, d]]) index.push(first + (right ? p : q), first + (right ? q : p), first + a);
      }
    });
    return { points, normals: normals.flat(), index, owner };
  },
  // Whether a part is drawn as a flat wedge when its robot is small on the screen: both of its short sides are a few pixels then.
  thin(part, radius) { return part.box.axes.map(M.norm).sort((a, b) => a - b)[1] < THIN * radius; },
  // Wedges along the longest axes of boxes, from their inner end to a point beyond the outer one: three corners, (along, across, half of the width) each.
  // One triangle instead of two: it is triangles, not pixels, that small robots cost.
  wedges(parts) {
    const points = [], axes = [], corners = [], index = [], owner = [];
    parts.forEach((part, k) => {
      const sorted = part.box.axes.slice().sort((a, b) => M.norm(b) - M.norm(a)), first = owner.length, width = .75 * (M.norm(sorted[1]) + M.norm(sorted[2]));
      const outward = M.scale(sorted[0], M.dot(sorted[0], part.box.centre) < 0 ? -1 : 1);
      for (const [along, across] of [[-1, -1], [-1, 1], [1.3, 0]]) { points.push(...part.box.centre); axes.push(...outward); corners.push(along, across, width); owner.push(k); }
      index.push(first, first + 1, first + 2);
    });
    return { points, axes, corners, index, owner };
  },
  // Lines from bodies to ancestors that are at least `length` away along the tree, or where it branches or ends: [own, ancestor] each.
  chords(parents, place, length) {
    const n = parents.length, children = new Int32Array(n), way = new Float64Array(n), from = new Int32Array(n), found = [];
    for (const p of parents) if (p >= 0) children[p]++;
    for (let i = 0; i < n; i++) { // parents come before their children
      const p = parents[i];
      if (p < 0) { from[i] = i; continue; }
      const a = place(i), b = place(p), kept = way[p] >= length || children[p] !== 1 || parents[p] < 0;
      from[i] = kept ? p : from[p];
      way[i] = (kept ? 0 : way[p]) + M.norm(M.sub(a, b));
      if (way[i] >= length || children[i] !== 1) found.push(i, from[i]);
    }
    return found;
  },
};
