// The size of a drawing without loading the page again, and the change log live. Everything else works without it.
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
  const size = (wanted) => {
    // What was in the middle stays there.
    const across = (canvas.scrollLeft + canvas.clientWidth / 2) / svg.clientWidth;
    const down = (canvas.scrollTop + canvas.clientHeight / 2) / svg.clientHeight;
    percent = Math.round(Math.min(300, Math.max(25, wanted)));
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
    size(Number(step.dataset.percent));
  });
  canvas.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === '+' || event.key === '=') size(percent * 1.25);
    else if (event.key === '-') size(percent / 1.25);
    else if (event.key === '0') { size(100); centre(); }
    else return;
    event.preventDefault();
  });
  canvas.addEventListener('wheel', (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    size(percent * (event.deltaY < 0 ? 1.1 : 1 / 1.1));
  }, { passive: false });
  // A small screen shows the neighbours of the middle too, unless a size was asked for.
  if ('auto' in zoom.dataset) size(Math.max(Math.min(70, percent), Math.min(percent, (100 * canvas.clientWidth) / width)));
  centre();
}

const live = document.querySelector('[data-live]');
const log = document.querySelector('[data-log]');
if (live && log && 'EventSource' in window) {
  const MAX_LINES = 500;
  const state = live.querySelector('[data-state]');
  const pause = live.querySelector('[data-pause]');
  let waiting = [];
  let paused = false;

  const made = (name, text, className) => {
    const element = document.createElement(name);
    if (text) element.textContent = text;
    if (className) element.className = className;
    return element;
  };
  const shown = (change) => {
    const line = made('li', '', 'line fresh');
    const what = made('p');
    what.append(made('span', change.event, 'chip'), ' ', change.summary);
    const facts = made('p', '', 'facts');
    const entity = made(change.url ? 'a' : 'span', change.entity);
    if (change.url) entity.setAttribute('href', change.url);
    const time = made('time', 'just now');
    time.dateTime = change.stamp;
    time.title = change.exact;
    facts.append(entity, ' ', made('code', change.principal), ' ', time);
    line.append(what, facts);
    log.querySelector('[data-none]')?.remove();
    log.prepend(line);
    while (log.children.length > MAX_LINES) log.lastElementChild.remove();
  };
  const say = (text) => { state.textContent = text; };
  const from = new URL(live.dataset.live, location.href);
  let source;
  const listen = () => {
    const here = new EventSource(from);
    source = here;
    const on = (name, heard) => here.addEventListener(name, (event) => {
      if (event.lastEventId) from.searchParams.set('after', event.lastEventId);
      heard(event);
    });
    on('open', () => say(paused ? 'Paused' : 'Live: what happens appears here'));
    on('error', () => {
      pause.hidden = here.readyState === EventSource.CLOSED;
      say(here.readyState === EventSource.CLOSED ? 'Not live any more: load the page again' : 'Connecting again …');
    });
    on('quiet', () => {});
    on('change', (event) => {
      const change = JSON.parse(event.data);
      if (!paused) return shown(change);
      waiting.push(change);
      say(`Paused, ${waiting.length} waiting`);
    });
    on('ended', (event) => say(JSON.parse(event.data).text));
  };
  // A browser has few connections for one server: a hidden page leaves its connection to the others.
  const attend = () => {
    if (document.hidden) source?.close();
    else if (!source || source.readyState === EventSource.CLOSED) listen();
  };
  attend();
  document.addEventListener('visibilitychange', attend);
  pause.hidden = false;
  pause.addEventListener('click', () => {
    paused = !paused;
    pause.textContent = paused ? 'Go on' : 'Pause';
    if (!paused) {
      waiting.forEach(shown);
      waiting = [];
    }
    say(paused ? 'Paused' : 'Live: what happens appears here');
  });
  addEventListener('pagehide', () => source?.close());
}
