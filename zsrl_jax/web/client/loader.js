// The first thing that runs: unpacks the blocks of this file and starts the page.
(async () => {
  const bytesOf = async (id) => {
    const text = document.getElementById(id).textContent;
    const packed = Uint8Array.fromBase64 ? Uint8Array.fromBase64(text)
      : Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  };
  const say = (told) => { document.getElementById("loading").textContent = told; };
  try {
    const [wasm, arrays, texts] = await Promise.all(["wasm", "arrays", "texts"].map(bytesOf));
    performance.mark("unpacked");
    const { modules, facts, table, files, licences } = JSON.parse(new TextDecoder().decode(texts));
    const addresses = new Map(); // modules come in the order in which they need each other
    for (const [name, source] of modules) {
      const linked = source.replace(/(\bfrom\s*)(["'])([^"'\n]+)\2/g, (all, from, quote, asked) => (
        addresses.has(asked) ? `${from}"${addresses.get(asked)}"` : all));
      const blob = new Blob([linked], { type: "text/javascript" });
      addresses.set(name, URL.createObjectURL(blob));
    }
    const { unpack } = await import(addresses.get("./arrays.js"));
    const { start } = await import(addresses.get("./app.js"));
    performance.mark("linked");
    window.zsrl = await start(facts, unpack(table, arrays), files, wasm, licences);
    performance.mark("ready");
  } catch (error) {
    console.error(error);
    say(`This page cannot run here: ${error.message}. It needs a browser of 2023 or later with WebGL.`);
  }
})();
