// Validates objects of operators' kinds, read from standard input as a JSON list: values by the operators' own schemas,
// and, since those let unknown fields pass, the names of all fields by the types made from them. Prints what is wrong.
import { readFileSync, writeFileSync } from "node:fs";
import ts from "typescript";

const PACKAGES = {
  "postgresql.cnpg.io/v1": "@kubernetes-models/cloudnative-pg/postgresql.cnpg.io/v1",
  "monitoring.coreos.com/v1": "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1",
};

const objects = JSON.parse(readFileSync(0, "utf8"));
const problems = [];
let source = "";
for (const [number, object] of objects.entries()) {
  const where = `${object.kind} ${object.metadata.name}`;
  const from = PACKAGES[object.apiVersion];
  const Kind = from && (await import(from))[object.kind];
  if (!Kind) {
    problems.push(`${where}: no schema for ${object.apiVersion}`);
    continue;
  }
  try {
    new Kind(object).validate();
  } catch (error) {
    problems.push(`${where}: ${error.message}`);
  }
  source += `import type { I${object.kind} as I${number} } from "${from}";\n`;
  source += `export const o${number}: I${number} = ${JSON.stringify(object)};\n`;
}
writeFileSync("objects.ts", source);
const program = ts.createProgram(["objects.ts"], {
  noEmit: true,
  strict: true,
  skipLibCheck: true,
  types: [],
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
});
for (const found of ts.getPreEmitDiagnostics(program)) {
  problems.push(ts.flattenDiagnosticMessageText(found.messageText, "\n"));
}
console.log(JSON.stringify(problems));
