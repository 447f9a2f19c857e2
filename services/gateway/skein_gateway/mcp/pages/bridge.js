// The page's side of MCP Apps (2026-01-26): JSON-RPC with the window that embeds it, and with nothing else.
const waiting = new Map();
let lastId = 0;

function post(message) {
  window.parent.postMessage({ jsonrpc: '2.0', ...message }, '*');
}

function call(method, params) {
  const id = (lastId += 1);
  post({ id, method, params });
  return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
}

// Calls a tool of the server; a refusal of the tool is an error with its text.
async function callTool(name, args) {
  const result = await call('tools/call', { name, arguments: args });
  if (result.isError) throw new Error(result.content.map((part) => part.text).join('\n'));
  return result.structuredContent;
}

// Makes an element of the page. Texts are never HTML, and characters that are not seen stand as their numbers.
function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function visible(text) {
  return String(text ?? '').replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (letter) =>
    letter === '\n' ? letter : `[U+${letter.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}]`,
  );
}

// Calls `show` with the structured content of each result of the tool that the page belongs to.
function connect(name, show) {
  window.addEventListener('message', (event) => {
    const message = event.data;
    if (event.source !== window.parent || message?.jsonrpc !== '2.0') return;
    if (message.method === 'ui/notifications/tool-result') show(message.params.structuredContent ?? {});
    else if (message.method !== undefined && message.id !== undefined) post({ id: message.id, result: {} });
    else if (waiting.has(message.id)) {
      const { resolve, reject } = waiting.get(message.id);
      waiting.delete(message.id);
      if (message.error) reject(new Error(message.error.message));
      else resolve(message.result);
    }
  });
  const resized = () =>
    post({
      method: 'ui/notifications/size-changed',
      params: { width: document.documentElement.scrollWidth, height: document.documentElement.scrollHeight },
    });
  call('ui/initialize', {
    protocolVersion: '2026-01-26',
    appInfo: { name, version: '1' },
    appCapabilities: {},
  }).then(() => {
    post({ method: 'ui/notifications/initialized', params: {} });
    new ResizeObserver(resized).observe(document.body);
  });
}
