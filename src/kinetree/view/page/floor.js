// Floors and grids, as triangles and lines with colours at their corners: a pixel costs next to nothing, which is what software renderers pay for.
"use strict";
const CELLS = 28; // squares on each side of the middle
const RINGS = 14, SPOKES = 40; // of the disc below the squares, which reaches to the horizon
const GROUND = [`${HEAD}
layout(location = 0) in vec2 at; out vec4 colour;
uniform mat4 view; uniform vec3 origin, middle, axisX, axisY, normal, eye, own, mean, back; uniform float unit, cell, reach, focal, strength; uniform bool grid;
void main() {
  vec3 p = origin + (axisX * at.x + axisY * at.y) * unit, way = eye - p; gl_Position = view * vec4(p, 1);
  float far = smoothstep(.25, 1., length(p - middle) / reach), d = length(way);
  float pixels = cell * focal * abs(dot(way, normal)) / (d * d); // height of a square on the screen; squares of few pixels would flicker
  float edge = max(abs(dot(p - middle, axisX)), abs(dot(p - middle, axisY))) / (cell * ${CELLS}.);
  float fine = smoothstep(1.5, 5., pixels) * (1. - smoothstep(.6, .95, edge));
  colour = grid ? vec4(own, strength * (1. - far) * fine) : vec4(mix(mix(mean, own, fine), back, far), 1);
}`, `${HEAD}
in vec4 colour; out vec4 pixel; void main() { pixel = colour; }`];
const CAST = hard => [`${HEAD}
layout(location = 0) in vec2 corner; uniform mat4 view; uniform vec3 middle, axisX, axisY; uniform float size; out vec2 at;
void main() { at = corner * .5 + .5; gl_Position = view * vec4(middle + (axisX * corner.x + axisY * corner.y) * size, 1); }`, `${HEAD}
in vec2 at; out vec4 pixel; uniform sampler2D shade; uniform float dark;
void main() { pixel = vec4(vec3(1. - dark * ${hard ? "texelFetch(shade, ivec2(at * float(textureSize(shade, 0).x)), 0)" : "texture(shade, at)"}.r), 1); }`];

class Floor {
  constructor(drawing) {
    Object.assign(this, { drawing, gl: drawing.gl });
    this.ground = drawing.compile(GROUND); this.cast = drawing.compile(CAST(drawing.software));
    this.square = drawing.buffer(new Float32Array([-1, -1, 1, -1, -1, 1, 1, 1]));
    this.disc = this.rings(); this.squares = this.checks(); this.lines = this.grid();
  }
  list(points, index, kind) {
    return { ...this.drawing.batch(new Float32Array(points), new Uint32Array(index), index.length, () => { this.gl.vertexAttribPointer(0, 2, this.gl.FLOAT, false, 0, 0); return 1; }), kind };
  }
  // A disc of radius 1; rings lie closer together near its middle.
  rings() {
    const points = [], index = [];
    for (let r = 0; r <= RINGS; r++) for (let s = 0; s < SPOKES; s++) { const a = 2 * Math.PI * s / SPOKES, size = (r / RINGS) ** 2; points.push(size * Math.cos(a), size * Math.sin(a)); }
    for (let r = 0; r < RINGS; r++) for (let s = 0; s < SPOKES; s++) { const a = r * SPOKES + s, b = r * SPOKES + (s + 1) % SPOKES; index.push(a, a + SPOKES, b, b, a + SPOKES, b + SPOKES); }
    return this.list(points, index, this.gl.TRIANGLES);
  }
  corners() {
    const points = [];
    for (let i = -CELLS; i <= CELLS; i++) for (let j = -CELLS; j <= CELLS; j++) points.push(i, j);
    return points;
  }
  checks() {
    const index = [], side = 2 * CELLS + 1;
    for (let i = 0; i < side - 1; i++) for (let j = i % 2; j < side - 1; j += 2) { const a = i * side + j; index.push(a, a + side, a + 1, a + 1, a + side, a + side + 1); }
    return this.list(this.corners(), index, this.gl.TRIANGLES);
  }
  grid() {
    const index = [], side = 2 * CELLS + 1;
    for (let i = 0; i < side; i++) for (let j = 0; j < side - 1; j++) index.push(i * side + j, i * side + j + 1, j * side + i, (j + 1) * side + i);
    return this.list(this.corners(), index, this.gl.LINES);
  }
  // The plane's axes, and its point below the target.
  plane({ position, normal }, look) {
    const x = M.unit(Math.abs(normal[0]) < .9 ? M.cross(M.cross(normal, [1, 0, 0]), normal) : M.cross(normal, [0, 0, 1])), y = M.cross(normal, x);
    const above = M.dot(normal, M.sub(look.target, position));
    return { normal, x, y, middle: M.sub(look.target, M.scale(normal, above)), level: M.dot(normal, position) };
  }
  draw({ x, y, normal, middle }, look, grid, mark = 1) {
    const gl = this.gl, pair = 2 * look.cell, snap = v => pair * Math.round(M.dot(v, middle) / pair) - M.dot(v, middle);
    const mean = look.tone.map((t, k) => (t + look.tone2[k]) / 2), origin = M.add(middle, M.add(M.scale(x, snap(x)), M.scale(y, snap(y))));
    const shared = { view: look.view, middle, axisX: x, axisY: y, normal, eye: look.eye, mean, back: look.back, cell: look.cell, reach: look.reach, focal: look.focal, grid: grid ? 1 : 0, strength: .5 };
    gl.useProgram(this.ground.program);
    const show = ({ array, perWorld, kind }, own, origin, unit) => {
      this.drawing.set(this.ground, { ...shared, own, origin, unit });
      gl.bindVertexArray(array);
      gl.drawElements(kind, perWorld, gl.UNSIGNED_INT, 0);
    };
    if (grid) {
      gl.enable(gl.BLEND); gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA); gl.depthMask(false);
      show(this.lines, look.tone2, origin, look.cell);
      gl.depthMask(true); gl.disable(gl.BLEND);
    } else {
      // The disc goes by depth, and marks the pixels where it is seen; squares go where the marks are, as equal depths would flicker.
      gl.enable(gl.STENCIL_TEST); gl.stencilFunc(gl.ALWAYS, mark, 255); gl.stencilOp(gl.KEEP, gl.KEEP, gl.REPLACE);
      gl.enable(gl.POLYGON_OFFSET_FILL); gl.polygonOffset(1, 1);
      show(this.disc, look.tone, middle, look.reach);
      gl.disable(gl.POLYGON_OFFSET_FILL);
      this.marked(mark, () => show(this.squares, look.tone2, origin, look.cell));
    }
    gl.bindVertexArray(null);
  }
  // Draw where a floor has left its mark, and nowhere else.
  marked(mark, draw) {
    const gl = this.gl;
    gl.enable(gl.STENCIL_TEST); gl.stencilFunc(gl.EQUAL, mark, 255); gl.stencilOp(gl.KEEP, gl.KEEP, gl.KEEP);
    gl.disable(gl.DEPTH_TEST);
    draw();
    gl.enable(gl.DEPTH_TEST); gl.disable(gl.STENCIL_TEST);
  }
  // Darken the floor where `shade` says; it was made for the plane that it holds.
  shadows({ texture, plane: { x, y, middle }, size }, look) {
    const gl = this.gl;
    gl.useProgram(this.cast.program);
    gl.bindTexture(gl.TEXTURE_2D, texture);
    this.drawing.set(this.cast, { view: look.view, middle, axisX: x, axisY: y, size, dark: look.dark, shade: 0 });
    gl.bindBuffer(gl.ARRAY_BUFFER, this.square); gl.enableVertexAttribArray(0); gl.vertexAttribPointer(0, 2, gl.FLOAT, false, 0, 0);
    gl.enable(gl.BLEND); gl.blendFunc(gl.ZERO, gl.SRC_COLOR);
    this.marked(1, () => gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4));
    gl.disable(gl.BLEND);
  }
}
