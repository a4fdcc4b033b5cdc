// Reads out the bar under the pointer, or the one chosen with the arrow keys. The page is complete without.
for (const svg of document.querySelectorAll("svg.over-time")) {
  const readout = svg.closest("figure").querySelector(".readout");
  const atRest = readout.textContent;
  const cursor = svg.querySelector(".cursor");
  const bars = svg.dataset.bars.split(";").map(bar => bar.split("|"));
  const left = Number(svg.dataset.left);
  const pitch = (Number(svg.dataset.right) - left) / bars.length;
  let chosen = 0;
  const choose = index => {
    chosen = Math.max(0, Math.min(bars.length - 1, index));
    const [time, allowed, refused] = bars[chosen];
    const count = digits => Number(digits).toLocaleString("en");
    readout.textContent = `${time}: ${count(allowed)} allowed, ${count(refused)} refused`;
    cursor.setAttribute("x", left + chosen * pitch);
    cursor.setAttribute("width", Math.max(1, pitch));
  };
  const rest = () => {
    readout.textContent = atRest;
    cursor.setAttribute("width", 0);
  };
  svg.addEventListener("pointermove", event => {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
    choose(Math.floor((x - left) / pitch));
  });
  svg.addEventListener("pointerleave", rest);
  svg.addEventListener("blur", rest);
  svg.addEventListener("keydown", event => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) {
      event.preventDefault();
      choose(chosen + step);
    }
  });
  svg.setAttribute("tabindex", "0");
}
