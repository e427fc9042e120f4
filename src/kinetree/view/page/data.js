// Where the scene comes from: the page itself, or the server that sent it.
"use strict";
const CHUNK_BYTES = 8 << 20; // of frames that are asked for at once

class Source {
  static async open() {
    const own = window.KINETREE_SCENE;
    const source = new Source();
    source.served = !own;
    if (own) {
      const unpack = text => Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer;
      source.scene = own.scene;
      [source.geometry, source.loaded] = [unpack(own.geometry), new Float32Array(unpack(own.frames))];
    } else {
      source.scene = await (await fetch("scene.json")).json();
      source.geometry = await (await fetch("geometry.bin")).arrayBuffer();
    }
    source.frames = [];
    if (own) source.keep(source.loaded); else await source.more();
    return source;
  }
  keep(floats) {
    const size = this.scene.frameFloats;
    for (let k = 0; k + size <= floats.length; k += size) this.frames.push(floats.subarray(k, k + size));
  }
  async more() {
    const { scene } = this, first = this.frames.length;
    if (first >= scene.time.length) return false;
    const count = Math.max(1, Math.min(scene.time.length - first, Math.floor(CHUNK_BYTES / (4 * scene.frameFloats))));
    const answer = await fetch(`frames.bin?first=${first}&count=${count}`);
    if (!answer.ok) throw new Error(await answer.text());
    this.keep(new Float32Array(await answer.arrayBuffer()));
    return true;
  }
  async post(path, body) {
    if (!this.served) return null;
    try {
      const answer = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
      return answer.ok ? await answer.json() : { error: await answer.text() };
    } catch { return { error: "the viewer has stopped" }; }
  }
  // States that the server sends by itself: those of a live simulation, and of show(q).
  async listen(receive, lost) {
    if (!this.served) return;
    try {
      const reader = (await fetch("stream")).body.getReader(), size = 4 * (4 + this.scene.frameFloats);
      let held = new Uint8Array(0);
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const whole = new Uint8Array(held.length + value.length);
        whole.set(held); whole.set(value, held.length);
        const count = Math.floor(whole.length / size);
        if (count) { // only the newest counts
          const floats = new Float32Array(whole.slice((count - 1) * size, count * size).buffer);
          receive({ time: floats[0], rate: floats[1], working: floats[2] > 0, frame: floats.subarray(4) });
        }
        held = whole.slice(count * size);
      }
    } catch { /* the server has stopped */ }
    lost();
  }
}
