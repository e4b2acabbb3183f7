// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.30;

interface IToken {
    function transfer(address to, uint256 value) external returns (bool);
    function transferFrom(address from, address to, uint256 value) external returns (bool);
}

/// A pool of two tokens that keeps the product of its reserves, less a fee of 0.3 % that stays in it.
contract Pool {
    IToken public immutable token0;
    IToken public immutable token1;

    /// Slot 0, packed: reserve0 in the low 112 bits, then reserve1, then the time of the last change.
    uint112 private reserve0;
    uint112 private reserve1;
    uint32 private changedAt;
    /// Slot 1.
    uint256 public totalShares;
    /// Slot 2.
    mapping(address owner => uint256) public shares;

    event Swap(address indexed sender, bool zeroForOne, uint256 amountIn, uint256 amountOut);
    event Deposit(address indexed sender, uint256 amount0, uint256 amount1, uint256 minted);
    event Withdrawal(address indexed sender, uint256 amount0, uint256 amount1, uint256 burned);
    event Sync(uint112 reserve0, uint112 reserve1);

    error InsufficientOutput(uint256 amountOut, uint256 minimum);
    error NothingIn();
    error ReserveOverflow();

    constructor(IToken token0_, IToken token1_) {
        token0 = token0_;
        token1 = token1_;
    }

    function getReserves() external view returns (uint112, uint112, uint32) {
        return (reserve0, reserve1, changedAt);
    }

    /// What a swap would give.
    function quote(bool zeroForOne, uint256 amountIn) public view returns (uint256) {
        (uint256 from, uint256 to) =
            zeroForOne ? (uint256(reserve0), uint256(reserve1)) : (uint256(reserve1), uint256(reserve0));
        uint256 afterFee = amountIn * 997;
        return afterFee * to / (from * 1000 + afterFee);
    }

    function swap(bool zeroForOne, uint256 amountIn, uint256 minimum) external returns (uint256 amountOut) {
        if (amountIn == 0) revert NothingIn();
        amountOut = quote(zeroForOne, amountIn);
        if (amountOut < minimum) revert InsufficientOutput(amountOut, minimum);
        (uint256 r0, uint256 r1) = (reserve0, reserve1);
        if (zeroForOne) {
            _set(r0 + amountIn, r1 - amountOut);
            token0.transferFrom(msg.sender, address(this), amountIn);
            token1.transfer(msg.sender, amountOut);
        } else {
            _set(r0 - amountOut, r1 + amountIn);
            token1.transferFrom(msg.sender, address(this), amountIn);
            token0.transfer(msg.sender, amountOut);
        }
        emit Swap(msg.sender, zeroForOne, amountIn, amountOut);
    }

    /// Adds liquidity; the first deposit sets the price.
    function deposit(uint256 amount0, uint256 amount1) external returns (uint256 minted) {
        if (amount0 == 0 || amount1 == 0) revert NothingIn();
        (uint256 r0, uint256 r1) = (reserve0, reserve1);
        uint256 total = totalShares;
        if (total == 0) {
            minted = amount0;
        } else {
            (uint256 by0, uint256 by1) = (amount0 * total / r0, amount1 * total / r1);
            minted = by0 < by1 ? by0 : by1;
        }
        totalShares = total + minted;
        shares[msg.sender] += minted;
        _set(r0 + amount0, r1 + amount1);
        token0.transferFrom(msg.sender, address(this), amount0);
        token1.transferFrom(msg.sender, address(this), amount1);
        emit Deposit(msg.sender, amount0, amount1, minted);
    }

    function withdraw(uint256 burned) external returns (uint256 amount0, uint256 amount1) {
        (uint256 r0, uint256 r1, uint256 total) = (reserve0, reserve1, totalShares);
        shares[msg.sender] -= burned;
        totalShares = total - burned;
        (amount0, amount1) = (r0 * burned / total, r1 * burned / total);
        _set(r0 - amount0, r1 - amount1);
        token0.transfer(msg.sender, amount0);
        token1.transfer(msg.sender, amount1);
        emit Withdrawal(msg.sender, amount0, amount1, burned);
    }

    function _set(uint256 r0, uint256 r1) private {
        if (r0 > type(uint112).max || r1 > type(uint112).max) revert ReserveOverflow();
        (reserve0, reserve1, changedAt) = (uint112(r0), uint112(r1), uint32(block.timestamp));
        emit Sync(uint112(r0), uint112(r1));
    }
}
