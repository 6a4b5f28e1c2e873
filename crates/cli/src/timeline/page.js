// A part of a picture larger (the wheel, or dragging; a double click: all), and the time under the pointer.
for (const strips of document.querySelectorAll('svg.strips')) {
  const all = strips.viewBox.baseVal, whole = all.width, height = all.height;
  const from = +strips.dataset.from, bottom = +strips.dataset.bottom, top = +strips.dataset.top;
  const picture = strips.parentNode, find = (name) => picture.querySelector(name);
  const axis = find('.axis'), cursor = find('.cursor'), when = find('.when');
  const shares = find('.shares'), turns = find('.turns');
  const first = axis.innerHTML;
  let start = 0, width = whole, dragged = null;
  const unit = (ms) => ms < 2 ? ['µs', 1e-3] : ms < 2000 ? ['ms', 1] : ms < 600000 ? ['s', 1000] : ['min', 60000];
  const name = (ms, step) => {
    const [text, factor] = unit(width);
    return (ms / factor).toFixed(Math.max(0, -Math.floor(Math.log10(step / factor)))) + ' ' + text;
  };
  const show = () => {
    width = Math.min(whole, Math.max(width, 0.05));
    start = Math.max(0, Math.min(start, whole - width));
    strips.setAttribute('viewBox', `${start} 0 ${width} ${height}`);
    const is_whole = width === whole;
    picture.querySelectorAll('.label, .marks').forEach((mark) => mark.setAttribute('display', is_whole ? 'inline' : 'none'));
    if (shares && turns) {
      const narrow = +strips.dataset.turn * (RIGHT - LEFT) / width < 3;
      shares.setAttribute('display', narrow ? 'inline' : 'none');
      turns.setAttribute('display', narrow ? 'none' : 'inline');
    }
    if (is_whole) { axis.innerHTML = first; return; }
    const least = width / 10, power = 10 ** Math.floor(Math.log10(least));
    const step = [1, 2, 5, 10].find((factor) => factor * power >= least * 0.999999) * power;
    let text = '';
    for (let tick = Math.ceil((start + from) / step) * step; tick <= start + from + width; tick += step) {
      const x = LEFT + (tick - from - start) / width * (RIGHT - LEFT);
      text += `<line x1="${x}" x2="${x}" y1="${top}" y2="${bottom + 4}" stroke="#e3e3e3"/>` +
        `<text x="${x}" y="${bottom + 18}" text-anchor="middle" font-size="11">${name(tick, step)}</text>`;
    }
    axis.innerHTML = text;
  };
  const at = (event) => {
    const box = picture.getBoundingClientRect();
    const x = (event.clientX - box.left) * picture.viewBox.baseVal.width / box.width;
    return Math.max(0, Math.min(1, (x - LEFT) / (RIGHT - LEFT)));
  };
  strips.addEventListener('wheel', (event) => {
    event.preventDefault();
    const share = at(event), point = start + share * width;
    width *= event.deltaY > 0 ? 1.25 : 0.8;
    width = Math.min(whole, Math.max(width, 0.05));
    start = point - share * width;
    show();
  }, { passive: false });
  strips.addEventListener('pointerdown', (event) => { dragged = [at(event), start]; strips.setPointerCapture(event.pointerId); });
  strips.addEventListener('pointerup', () => { dragged = null; });
  strips.addEventListener('dblclick', () => { start = 0; width = whole; show(); });
  picture.addEventListener('pointermove', (event) => {
    const share = at(event), x = LEFT + share * (RIGHT - LEFT);
    if (dragged) { start = dragged[1] + (dragged[0] - share) * width; show(); }
    cursor.setAttribute('x1', x); cursor.setAttribute('x2', x);
    when.setAttribute('x', x);
    when.textContent = name(start + from + share * width, width / 1000);
  });
}
document.querySelectorAll('.hint').forEach((hint) => { hint.textContent = 'Wheel: larger or smaller; drag: move; double click: all of it.'; });
