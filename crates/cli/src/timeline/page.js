// A part of a picture larger (the wheel, or dragging; a double click: all), and the time under the pointer.
for (const strips of document.querySelectorAll('svg.strips')) {
  const all = strips.viewBox.baseVal, whole = all.width, height = all.height;
  const from = +strips.dataset.from, bottom = +strips.dataset.bottom, top = +strips.dataset.top;
  const since = +strips.dataset.since;
  const picture = strips.parentNode, find = (name) => picture.querySelector(name);
  const axis = find('.axis'), cursor = find('.cursor'), when = find('.when');
  const shares = find('.shares'), turns = find('.turns');
  const first = axis.innerHTML;
  let start = 0, width = whole, dragged = null;
  const pad = (number, width) => String(number).padStart(width, '0');
  // As the labels of the whole picture are written (clock.rs): local microseconds, with the digits that a step needs.
  const time = (us, step) => {
    const day = Math.round(us) % 864e8, seconds = Math.floor(day / 1e6);
    if (day === 0 && step >= 60e6) return new Date(us / 1000).toISOString().slice(5, 10);
    let text = pad(Math.floor(seconds / 3600), 2) + ':' + pad(Math.floor(seconds / 60) % 60, 2);
    if (step < 60e6) text += ':' + pad(seconds % 60, 2);
    const places = step >= 1e6 ? 0 : [1, 2, 3, 4, 5, 6].find((places) => step % 10 ** (6 - places) === 0);
    return places ? text + '.' + pad(day % 1e6, 6).slice(0, places) : text;
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
    const begin = (start + from) * 1000, length = width * 1000;
    const step = STEPS.find((step) => Math.floor(length / step) <= 9) || length;
    let text = '';
    for (let number = Math.ceil(begin / step); number * step <= begin + length; number += 1) {
      const x = LEFT + (number * step - begin) / length * (RIGHT - LEFT);
      text += `<line x1="${x}" x2="${x}" y1="${top}" y2="${bottom + 4}" stroke="#e3e3e3"/>` +
        `<text x="${x}" y="${bottom + 18}" text-anchor="middle" font-size="11">${time(number * step, step)}</text>`;
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
    const point = start + share * width;
    const digit = STEPS.find((step) => step >= Math.min(width, 600000) && step < 60e6 && Number.isInteger(Math.log10(step))) || 1e6;
    when.textContent = `${time((from + point) * 1000, digit)} (${((since + point) / 1000).toFixed(width < 20 ? 6 : 3)} s after the first submission)`;
  });
}
document.querySelectorAll('.hint').forEach((hint) => { hint.textContent = 'Wheel: larger or smaller; drag: move; double click: all of it.'; });
