// The search runs in a worker, and a page from the disk may start none: there its script runs in a hidden frame.
(() => {
  class FrameWorker extends EventTarget {
    onmessage = null;
    onerror = null;
    #frame = document.createElement("iframe");
    #loaded;

    constructor(address) {
      super();
      this.#frame.hidden = true;
      document.body.append(this.#frame);
      const page = this.#frame.contentDocument;
      page.open();
      page.write("<!doctype html><body></body>");
      page.close();
      const inside = this.#frame.contentWindow;
      const load = (source) =>
        new Promise((resolve, reject) => {
          const script = page.createElement("script");
          script.src = new URL(source, document.baseURI);
          script.onload = resolve;
          script.onerror = () => reject(new Error(`${source} can't be loaded`));
          page.body.append(script);
        });
      inside.importScripts = (...sources) =>
        sources.reduce((before, source) => before.then(() => load(source)), Promise.resolve());
      inside.postMessage = (data) => this.#tell(new MessageEvent("message", {data: structuredClone(data)}));
      inside.addEventListener("error", ({message, error}) => this.#tell(new ErrorEvent("error", {message, error})));
      this.#loaded = load(address);
      this.#loaded.catch((error) => this.#tell(new ErrorEvent("error", {message: error.message, error})));
    }

    postMessage(data) {
      const copy = structuredClone(data);
      this.#loaded.then(() => {
        const inside = this.#frame.contentWindow;
        inside?.dispatchEvent(new inside.MessageEvent("message", {data: copy}));
      });
    }

    terminate() {
      this.#frame.remove();
    }

    #tell(event) {
      setTimeout(() => {
        this[`on${event.type}`]?.(event);
        this.dispatchEvent(event);
      });
    }
  }

  window.IFrameWorker = FrameWorker; // a page that has it fetches none
  if (location.protocol === "file:") window.Worker = FrameWorker;
})();
