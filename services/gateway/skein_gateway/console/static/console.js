// Zooms the graph without reloading the page, updates the change log live, and sets the time of a search by a slider. All
// other features work without script.
'use strict';

const canvas = document.querySelector('[data-canvas]');
const zoom = document.querySelector('[data-zoom]');
if (canvas && zoom) {
  const svg = canvas.querySelector('svg');
  const steps = [...zoom.querySelectorAll('[data-percent]')];
  const { width, height, x, y } = svg.dataset;
  let percent = Number(steps.find((step) => step.ariaCurrent)?.dataset.percent ?? 100);

  const centre = () => {
    canvas.scrollLeft = svg.clientWidth * x - canvas.clientWidth / 2;
    canvas.scrollTop = svg.clientHeight * y - canvas.clientHeight / 2;
  };
  const setZoom = (newPercent) => {
    // Keep the centre of the view in place.
    const across = (canvas.scrollLeft + canvas.clientWidth / 2) / svg.clientWidth;
    const down = (canvas.scrollTop + canvas.clientHeight / 2) / svg.clientHeight;
    percent = Math.round(Math.min(300, Math.max(25, newPercent)));
    svg.setAttribute('width', Math.round((width * percent) / 100));
    svg.setAttribute('height', Math.round((height * percent) / 100));
    canvas.scrollLeft = svg.clientWidth * across - canvas.clientWidth / 2;
    canvas.scrollTop = svg.clientHeight * down - canvas.clientHeight / 2;
    for (const step of steps) {
      if (Number(step.dataset.percent) === percent) step.setAttribute('aria-current', 'true');
      else step.removeAttribute('aria-current');
    }
  };
  zoom.addEventListener('click', (event) => {
    const step = event.target.closest('[data-percent]');
    if (!step || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    setZoom(Number(step.dataset.percent));
  });
  canvas.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === '+' || event.key === '=') setZoom(percent * 1.25);
    else if (event.key === '-') setZoom(percent / 1.25);
    else if (event.key === '0') { setZoom(100); centre(); }
    else return;
    event.preventDefault();
  });
  canvas.addEventListener('wheel', (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    setZoom(percent * (event.deltaY < 0 ? 1.1 : 1 / 1.1));
  }, { passive: false });
  // Without an explicit zoom, a small screen zooms out to show the neighbours of the centre.
  if ('auto' in zoom.dataset) setZoom(Math.max(Math.min(70, percent), Math.min(percent, (100 * canvas.clientWidth) / width)));
  centre();
}

const live = document.querySelector('[data-live]');
const log = document.querySelector('[data-log]');
if (live && log && 'EventSource' in window) {
  const MAX_LINES = 500;
  const state = live.querySelector('[data-state]');
  const pause = live.querySelector('[data-pause]');
  let pending = [];
  let paused = false;

  const createElement = (name, text, className) => {
    const element = document.createElement(name);
    if (text) element.textContent = text;
    if (className) element.className = className;
    return element;
  };
  const showChange = (change) => {
    const line = createElement('li', '', 'line fresh');
    const summary = createElement('p');
    summary.append(createElement('span', change.event, 'chip'), ' ', change.summary);
    const facts = createElement('p', '', 'facts');
    const entity = createElement(change.url ? 'a' : 'span', change.entity);
    if (change.url) entity.setAttribute('href', change.url);
    const time = createElement('time', 'just now');
    time.dateTime = change.stamp;
    time.title = change.exact;
    facts.append(entity, ' ', createElement('span', change.principal), ' ', time);
    line.append(summary, facts);
    log.querySelector('[data-none]')?.remove();
    log.prepend(line);
    while (log.children.length > MAX_LINES) log.lastElementChild.remove();
  };
  const setStatus = (text) => { state.textContent = text; };
  const url = new URL(live.dataset.live, location.href);
  let source;
  const connect = () => {
    const connection = new EventSource(url);
    source = connection;
    const on = (name, handler) => connection.addEventListener(name, (event) => {
      if (event.lastEventId) url.searchParams.set('after', event.lastEventId);
      handler(event);
    });
    on('open', () => setStatus(paused ? 'Paused' : 'Live: new changes appear here'));
    on('error', () => {
      pause.hidden = connection.readyState === EventSource.CLOSED;
      setStatus(connection.readyState === EventSource.CLOSED ? 'Disconnected: reload the page' : 'Reconnecting …');
    });
    on('quiet', () => {});
    on('change', (event) => {
      const change = JSON.parse(event.data);
      if (!paused) return showChange(change);
      pending.push(change);
      setStatus(`Paused, ${pending.length} new`);
    });
    on('ended', (event) => setStatus(JSON.parse(event.data).text));
  };
  // Browsers limit the connections to one server, so a hidden page closes its stream.
  const updateConnection = () => {
    if (document.hidden) source?.close();
    else if (!source || source.readyState === EventSource.CLOSED) connect();
  };
  updateConnection();
  document.addEventListener('visibilitychange', updateConnection);
  pause.hidden = false;
  pause.addEventListener('click', () => {
    paused = !paused;
    pause.textContent = paused ? 'Resume' : 'Pause';
    if (!paused) {
      pending.forEach(showChange);
      pending = [];
    }
    setStatus(paused ? 'Paused' : 'Live: new changes appear here');
  });
  addEventListener('pagehide', () => source?.close());
}

const slide = document.querySelector('[data-slide]');
const moment = document.querySelector('#as_of');
if (slide && moment) {
  const slider = slide.querySelector('input');
  // The field is in UTC, and empty means now.
  const describe = () => slider.setAttribute('aria-valuetext', moment.value ? `${moment.value.replace('T', ' ')} UTC` : 'now');
  slider.addEventListener('input', () => {
    moment.value = slider.value === slider.max ? '' : new Date(slider.value * 1000).toISOString().slice(0, 19);
    describe();
  });
  moment.addEventListener('input', () => {
    slider.value = moment.value ? Date.parse(`${moment.value}Z`) / 1000 : slider.max;
    describe();
  });
  describe();
  slide.hidden = false;
}
