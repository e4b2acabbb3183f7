// Compiles src/*.sol into out/*.json: `npm ci && npm run build`. `--check` compares instead.
const fs = require('node:fs');
const path = require('node:path');
const solc = require('solc');

const folder = (name) => path.join(__dirname, name);
const sources = {};
for (const file of fs.readdirSync(folder('src')).sort()) {
  sources[file] = { content: fs.readFileSync(path.join(folder('src'), file), 'utf8') };
}
const input = {
  language: 'Solidity',
  sources,
  settings: {
    evmVersion: 'paris',
    optimizer: { enabled: true, runs: 1_000_000 },
    // The same bytes wherever it is compiled.
    metadata: { bytecodeHash: 'none', appendCBOR: false },
    outputSelection: { '*': { '*': ['abi', 'evm.bytecode.object', 'evm.methodIdentifiers', 'storageLayout'] } },
  },
};
const output = JSON.parse(solc.compile(JSON.stringify(input)));
const faults = (output.errors ?? []).filter((entry) => entry.severity === 'error');
if (faults.length > 0) {
  for (const fault of faults) console.error(fault.formattedMessage);
  process.exit(1);
}
let differ = false;
for (const [file, contracts] of Object.entries(output.contracts)) {
  for (const [name, made] of Object.entries(contracts)) {
    if (name.startsWith('I')) continue;
    const artefact = {
      contract: name,
      source: `src/${file}`,
      compiler: solc.version(),
      settings: { evmVersion: 'paris', optimizerRuns: 1_000_000 },
      abi: made.abi,
      selectors: made.evm.methodIdentifiers,
      storage: made.storageLayout.storage.map(({ label, slot, offset, type }) => ({ label, slot, offset, type })),
      bytecode: `0x${made.evm.bytecode.object}`,
    };
    const text = `${JSON.stringify(artefact, null, 2)}\n`;
    const target = path.join(folder('out'), `${name}.json`);
    if (process.argv.includes('--check')) {
      if (fs.readFileSync(target, 'utf8') !== text) {
        console.error(`${target} is not what src/${file} compiles to`);
        differ = true;
      }
    } else {
      fs.writeFileSync(target, text);
    }
  }
}
process.exit(differ ? 1 : 0);
